// Command controlplane-build builds programs of Kubernetes and etcd at their pinned versions, unless they
// are there already, and prints their paths. Without arguments it builds those of a control plane: run it
// before "go test", whose time limit a cold build exceeds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/phasegpu/phasegpu/e2e/controlplane/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = build.ControlPlane()
	}
	paths, err := build.Programs(ctx, os.Stderr, names...)
	if err != nil {
		return err
	}
	for _, path := range paths {
		fmt.Println(path)
	}
	return nil
}
