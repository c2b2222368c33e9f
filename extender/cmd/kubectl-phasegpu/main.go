// Command kubectl-phasegpu is `kubectl phasegpu`: it reports what pods request and hold of devices, where they
// would fit and why they wait, from files or from a cluster, and whether the extender's books are right.
package main

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

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

// session is the surroundings of one run.
type session struct {
	genericiooptions.IOStreams
	screen   render.Screen // of Out
	terminal bool          // Out is one, and can be drawn over
	now      func() time.Time
	config   *genericclioptions.ConfigFlags // kubectl's flags; root sets it
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, arguments(os.Args), session{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		screen:    screen(), terminal: term.IsTerminal(int(os.Stdout.Fd())), now: time.Now,
	})
	stop()
	os.Exit(code)
}

// screen describes standard output.
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
  kubectl phasegpu why POD                    explain why a pod waits, and what would make it fit
  kubectl phasegpu top [nodes|devices|namespaces]
                                              list what is reserved, and what will be released
  kubectl phasegpu timeline POD               list the phases of a pod, and what was released when
  kubectl phasegpu explain -f FILE|-          explain pods and workloads in files
  kubectl phasegpu explain POD... [-n NS]     explain pods of the cluster
  kubectl phasegpu fit -f FILE --nodes FILE   place pods on nodes, both from files
  kubectl phasegpu fit -f FILE                place pods on the cluster as it is now
  kubectl phasegpu audit                      compare the extender's books with a recomputation
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,...
                                              check whether a container could move to other devices
  kubectl phasegpu completion SHELL           print a script for completion in bash, zsh, fish or powershell
  kubectl phasegpu version

Each command has its own --help, and takes the flags of kubectl that reach a cluster: --kubeconfig, --context,
--as, --token, --server, --request-timeout and so on.

Exit codes: 0 fine; 1 a pod waits or does not fit, the books drift, or a container would not move; 2 bad input.
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
func root(s session) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-phasegpu", Long: usage, SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl phasegpu"},
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprint(s.ErrOut, usage)
			return exit(exitBadInput)
		},
	}
	s.config = genericclioptions.NewConfigFlags(true)
	s.config.CacheDir, s.config.Namespace = nil, nil // no discovery; some commands use -n for something else
	s.config.AddFlags(root.PersistentFlags())
	s.config.Namespace = new(string)
	complete(root, "context", s.contexts)
	root.AddCommand(
		whyCommand(s), topCommand(s), timelineCommand(s), explainCommand(s), fitCommand(s), auditCommand(s),
		refitCommand(s), versionCommand(s),
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
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprint(s.Out, c.Long)
		if c.Parent() != nil {
			fmt.Fprintf(s.Out, "\nFlags:\n%s\nFlags of kubectl:\n%s",
				c.LocalFlags().FlagUsages(), c.InheritedFlags().FlagUsagesWrapped(s.screen.Width))
		}
	})
	return root
}

func versionCommand(s session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.Out, "kubectl-phasegpu %s (commit %s) %s %s/%s\n",
				version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, s session) int {
	command := root(s)
	command.SetArgs(append([]string{}, args...))
	err := command.ExecuteContext(ctx)
	code := exit(exitFine)
	switch {
	case err == nil, errors.As(err, &code):
		return int(code)
	case errors.Is(err, syscall.EPIPE): // the reader of our output has closed it
		return exitBadInput
	}
	fmt.Fprintln(s.ErrOut, "error:", err)
	return exitBadInput
}
