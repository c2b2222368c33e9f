package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// profile takes CPU profiles of API server, kube-scheduler and, if it runs, extender during a round, when there is a
// directory for them. The function that it returns waits for them.
func (b *bench) profile(ctx context.Context, part string, mode Mode) (wait func() error) {
	if b.Profiles == "" {
		return func() error { return nil }
	}
	take := func(name string, page func(context.Context, string) ([]byte, error)) func() error {
		file := fmt.Sprintf("%d-%s-%s-%03d-%s.pprof", b.Nodes, part, mode, b.round, name)
		file = strings.NewReplacer(", ", "-", " ", "-").Replace(file)
		return func() error {
			body, err := page(ctx, "/debug/pprof/profile?seconds=4")
			if err != nil {
				return fmt.Errorf("profile of %s: %w", name, err)
			}
			return os.WriteFile(filepath.Join(b.Profiles, file), body, 0o644)
		}
	}
	all := []func() error{take("kube-scheduler", b.SchedulerPage), take("kube-apiserver", b.apiServerPage)}
	if mode.Extender {
		all = append(all, take("extender", b.Page))
	}
	taken := make(chan error, 1)
	go func() { taken <- stack.Together(all...) }()
	return func() error { return <-taken }
}

func (b *bench) apiServerPage(ctx context.Context, path string) ([]byte, error) {
	return b.Client.Discovery().RESTClient().Get().RequestURI(path).DoRaw(ctx)
}
