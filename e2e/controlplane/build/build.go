package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Programs returns the paths of the named programs, built for this machine when they are not there yet, in
// the order of the names. Known are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet,
// kubeadm, kubectl and kube-proxy. What is built and how far it is goes to progress; nothing does when all
// are there. Several processes may ask for the same at once: one builds, the others wait.
func Programs(ctx context.Context, progress io.Writer, names ...string) ([]string, error) {
	located := map[string]location{}
	paths := make([]string, 0, len(names))
	for _, name := range names {
		m, err := moduleOf(name)
		if err != nil {
			return nil, err
		}
		l, ok := located[m.dir]
		if !ok {
			if l, err = m.locate(); err != nil {
				return nil, err
			}
			located[m.dir] = l
		}
		path := filepath.Join(l.bin, name)
		if err := l.provide(ctx, progress, name, path); err != nil {
			return nil, fmt.Errorf("building %s %s: %w", name, l.version, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// provide builds a program unless it is there. A binary appears under its name only when it is complete.
func (l location) provide(ctx context.Context, progress io.Writer, name, path string) error {
	if present(path) {
		return nil
	}
	if err := os.MkdirAll(l.bin, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, progress, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if present(path) { // somebody else built it while we waited
		return nil
	}
	temporary, err := os.MkdirTemp(l.bin, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	built := filepath.Join(temporary, name)
	if err := l.compile(ctx, progress, name, built); err != nil {
		return err
	}
	return os.Rename(built, path)
}

func (l location) compile(ctx context.Context, progress io.Writer, name, output string) error {
	args := append([]string{"build", "-o", output}, l.flags()...)
	cmd := exec.CommandContext(ctx, "go", append(args, l.programs[name])...)
	cmd.Dir = l.source
	cmd.Env = append(os.Environ(), environment()...)
	const first = "phasegpu: building %s %s, once (many minutes when Go's build cache is cold); to be kept in %s\n"
	fmt.Fprintf(progress, first, name, l.version, l.bin)
	stop := report(progress, name)
	out, err := cmd.CombinedOutput()
	stop()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; what was compiled is kept, so that the next attempt goes on from here", ctx.Err())
	case err != nil:
		return fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, out)
	}
	return nil
}

// report says now and then that a build goes on, until it is stopped.
func report(progress io.Writer, name string) (stop func()) {
	began, tick, done := time.Now(), time.NewTicker(10*time.Second), make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(progress, "phasegpu: building %s for %s\n", name, time.Since(began).Round(time.Second))
			case <-done:
				return
			}
		}
	})
	return func() { tick.Stop(); close(done); saying.Wait() }
}

func present(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// ControlPlane names the programs of a control plane.
func ControlPlane() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}
