// Command phasegpu-numarefit moves a container's devices to those that kubelet's Topology Manager allows,
// when a node's device plugin asks and the books have room.
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phasegpu-numarefit:", err)
		os.Exit(1)
	}
}
