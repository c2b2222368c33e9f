// Command kubectl-phasegpu is `kubectl phasegpu`: it tells what pods ask for and hold of devices, and
// where they would fit, from files or from a cluster, and whether the extender's books are right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/phasegpu/phasegpu/extender/internal/render"
)

// Set by the linker (-X main.version=… -X main.commit=…).
var version, commit = "dev", "unknown"

// Exit codes.
const (
	exitFine     = 0
	exitNegative = 1 // a pod does not fit, the books drift, a container would not move
	exitBadInput = 2
)

// streams is what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	screen   render.Screen // what out is drawn on
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, screen()})
	stop()
	os.Exit(code)
}

// screen finds out what standard output is.
func screen() render.Screen {
	s := render.Screen{Width: 100}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		s.Width = width
		s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	} else if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		s.Width = width
	}
	return s
}

const usage = `Says what pods ask for and hold of GPUs, phase by phase, and where they would fit.

Usage:
  kubectl phasegpu explain -f FILE|-          explain pods and workloads in files
  kubectl phasegpu explain POD... [-n NS]     explain pods of the cluster
  kubectl phasegpu fit -f FILE --nodes FILE   place pods on nodes, both from files
  kubectl phasegpu fit -f FILE                place pods on the cluster as it is now
  kubectl phasegpu audit                      compare the extender's books with a recomputation
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,...
                                              tell whether a container could move to other devices
  kubectl phasegpu version

Each command has its own --help. Exit codes: 0 fine; 1 a pod does not fit, the books drift, or a container
would not move; 2 bad input.
`

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		fmt.Fprint(s.err, usage)
		return exitBadInput
	}
	code, err := exitFine, error(nil)
	switch command := args[0]; command {
	case "explain":
		code, err = runExplain(ctx, args[1:], s)
	case "fit":
		code, err = runFit(ctx, args[1:], s)
	case "audit":
		code, err = runAudit(ctx, args[1:], s)
	case "refit":
		code, err = runRefit(ctx, args[1:], s)
	case "version":
		_, err = fmt.Fprintf(s.out, "kubectl-phasegpu %s (commit %s) %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	case "help", "-h", "--help":
		_, err = fmt.Fprint(s.out, usage)
	default:
		err = fmt.Errorf("%q is no command: use explain, fit, audit, refit, version or help", command)
	}
	switch {
	case err == nil:
		return code
	case errors.Is(err, pflag.ErrHelp):
		return exitFine
	case errors.Is(err, syscall.EPIPE): // whoever read our output has seen enough
		return exitBadInput
	}
	fmt.Fprintln(s.err, "error:", err)
	return exitBadInput
}
