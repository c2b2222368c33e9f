// Command phasegpu-extender is the kube-scheduler extender that places pods on GPUs by phase: it filters
// and scores nodes, binds pods with their devices recorded in the same write, and keeps the books.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phasegpu-extender:", err)
		os.Exit(1)
	}
}
