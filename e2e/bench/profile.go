package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// profile takes CPU profiles of API server, kube-scheduler and, if it runs, extender while a round goes on, when there
// is a directory for them. The result waits for them.
func (b *bench) profile(ctx context.Context, part string, mode Mode) (wait func() error) {
	if b.Profiles == "" {
		return func() error { return nil }
	}
	pages := map[string]func(context.Context, string) ([]byte, error){"kube-scheduler": b.SchedulerPage,
		"kube-apiserver": b.apiServerPage}
	if mode.Extender {
		pages["extender"] = b.Page
	}
	var all sync.WaitGroup
	errs := make(chan error, len(pages))
	for name, page := range pages {
		all.Go(func() {
			body, err := page(ctx, "/debug/pprof/profile?seconds=4")
			if err == nil {
				file := fmt.Sprintf("%d-%s-%s-%03d-%s.pprof", b.Nodes, part,
					strings.ReplaceAll(mode.String(), ", ", "-"), b.round, name)
				err = os.WriteFile(filepath.Join(b.Profiles, strings.ReplaceAll(file, " ", "-")), body, 0o644)
			}
			errs <- err
		})
	}
	return func() error {
		all.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return fmt.Errorf("profile: %w", err)
			}
		}
		return nil
	}
}

func (b *bench) apiServerPage(ctx context.Context, path string) ([]byte, error) {
	return b.Client.Discovery().RESTClient().Get().RequestURI(path).DoRaw(ctx)
}
