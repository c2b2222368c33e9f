// Command phasegpu-extender is the kube-scheduler extender that places pods on GPUs by phase: it filters and scores
// nodes, binds pods with their devices recorded in the same write, and keeps the books.
package main

import (
	"context"
	"io"

	"github.com/phasegpu/phasegpu/extender/internal/app"
	"github.com/phasegpu/phasegpu/gen/process"
)

func main() { process.Main(app.Name, run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	switch {
	case err != nil:
		return err
	case o.Version:
		return process.PrintVersion(app.Name, stdout)
	}
	return app.Run(ctx, o, stderr)
}
