// Command phasegpu-device-plugin is the kubelet device plugin for NVIDIA cards: it tells kubelet and the
// scheduler what cards a node has, and gives each container the devices that its pod's record names.
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
		fmt.Printf("phasegpu-device-plugin %s (commit %s)\n", version, commit)
	default:
		err = run(ctx, o)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phasegpu-device-plugin:", err)
		os.Exit(1)
	}
}
