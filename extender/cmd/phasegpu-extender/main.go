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

// Set by the linker (-X main.version=… -X main.commit=…).
var version, commit = "dev", "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case err != nil:
	case o.version:
		fmt.Printf("phasegpu-extender %s (commit %s)\n", version, commit)
	default:
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
