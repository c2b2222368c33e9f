// Command kubectl-phasegpu is `kubectl phasegpu`: it tells what pods ask for and hold of devices, where they
// would fit and why they wait, from files or from a cluster, and whether the extender's books are right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Set by the linker (-X main.version=… -X main.commit=…).
var version, commit = "dev", "unknown"

// Exit codes.
const (
	exitFine     = 0
	exitNegative = 1 // a pod waits or does not fit, the books drift, a container would not move
	exitBadInput = 2
)

// streams is what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	screen   render.Screen // what out is drawn on
	terminal bool          // out is one, and can be drawn over
	now      func() time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, arguments(os.Args), streams{os.Stdin, os.Stdout, os.Stderr, screen(), term.IsTerminal(int(os.Stdout.Fd())), time.Now})
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

const usage = `Says what pods ask for and hold of GPUs, phase by phase, where they would fit, why they wait, and who has
the memory.

Usage:
  kubectl phasegpu why POD                    tell why a pod waits, and what would make it fit
  kubectl phasegpu top [nodes|devices|namespaces]
                                              tell what is reserved, and what will be released
  kubectl phasegpu timeline POD               tell the phases of a pod, and what was released when
  kubectl phasegpu explain -f FILE|-          explain pods and workloads in files
  kubectl phasegpu explain POD... [-n NS]     explain pods of the cluster
  kubectl phasegpu fit -f FILE --nodes FILE   place pods on nodes, both from files
  kubectl phasegpu fit -f FILE                place pods on the cluster as it is now
  kubectl phasegpu audit                      compare the extender's books with a recomputation
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,...
                                              tell whether a container could move to other devices
  kubectl phasegpu completion SHELL           print a script for completion in bash, zsh, fish or powershell
  kubectl phasegpu version

Each command has its own --help. Exit codes: 0 fine; 1 a pod waits or does not fit, the books drift, or a
container would not move; 2 bad input.
`

// exit is a result that is not an error and not fine either.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// completer is the name by which kubectl asks a plugin to complete a command line.
const completer = "kubectl_complete-phasegpu"

// arguments is the command line of a process; under the completer's name it is one to complete.
func arguments(args []string) []string {
	if filepath.Base(args[0]) == completer {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

// root is the whole command.
func root(s streams) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-phasegpu", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl phasegpu"},
		Long: usage, SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprint(s.err, usage)
			return exit(exitBadInput)
		},
	}
	root.AddCommand(
		whyCommand(s), topCommand(s), timelineCommand(s), explainCommand(s), fitCommand(s), auditCommand(s), refitCommand(s),
		&cobra.Command{Use: "version", Short: "print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.out, "kubectl-phasegpu %s (commit %s) %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}},
	)
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, c := range root.Commands() {
			names = append(names, c.Name())
		}
		return fmt.Errorf("%q is no command: use %s", args[0], strings.Join(names, ", "))
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprint(s.out, c.Long)
		if c.Parent() != nil {
			fmt.Fprintf(s.out, "\nFlags:\n%s", c.LocalFlags().FlagUsages())
		}
	})
	return root
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	command := root(s)
	command.SetArgs(append([]string{}, args...))
	err := command.ExecuteContext(ctx)
	code := exit(exitFine)
	switch {
	case err == nil, errors.As(err, &code):
		return int(code)
	case errors.Is(err, syscall.EPIPE): // whoever read our output has seen enough
		return exitBadInput
	}
	fmt.Fprintln(s.err, "error:", err)
	return exitBadInput
}
