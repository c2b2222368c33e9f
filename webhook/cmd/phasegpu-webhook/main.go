// Command phasegpu-webhook admits pods that ask for devices: it sets their defaults, refuses those that
// could not be accounted for or exceed their namespace's quota, and takes out forged records. Its subcommand
// `certificates` makes and renews serving certificates, of the webhook and of others.
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
		fmt.Fprintln(os.Stderr, "phasegpu-webhook:", err)
		os.Exit(1)
	}
}
