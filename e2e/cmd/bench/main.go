// Command bench measures how fast pods are bound through a real kube-scheduler and API server, alone and with the
// extender, and writes tables to stdout; see package bench. Progress is on stderr.
//
//	go run ./e2e/cmd/bench --nodes 1000 | go run ./hack/section docs/benchmarks.md end-to-end
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/phasegpu/phasegpu/e2e/bench"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o := bench.Options{Progress: progress}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	sizes := f.String("nodes", "1000", "nodes of the cluster; several sizes with commas between")
	command := f.String("command", "go run ./e2e/cmd/bench "+strings.Join(args, " "),
		"the command that is named in the text")
	f.IntVar(&o.GPUs, "gpus", 8, "GPUs of each node")
	f.IntVar(&o.Pods, "pods", 1000, "pods of a burst")
	f.IntVar(&o.Rounds, "rounds", 3, "bursts of each mode")
	f.IntVar(&o.Rate, "rate", 40, "pods that come in a second in the steady part")
	f.DurationVar(&o.Steady, "steady", 20*time.Second, "how long the steady part is; 0 leaves it out")
	f.IntVar(&o.Inits, "inits", 50, "init containers that finish in a second")
	f.StringVar(&o.Profiles, "profiles", "",
		"directory for CPU profiles of extender and kube-scheduler; they cost a little")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var nodes []int
	for word := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n <= 0 {
			return fmt.Errorf("--nodes: %q is no number of nodes", word)
		}
		nodes = append(nodes, n)
	}
	if min(o.GPUs, o.Pods-1, o.Rounds, o.Rate, o.Inits) <= 0 || o.Steady < 0 {
		return errors.New("--gpus, --rounds, --rate and --inits must be above 0, --pods above 1, --steady not below 0")
	}
	bin, err := os.MkdirTemp("", "phasegpu-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if o.Programs, err = stack.Build(ctx, bin); err != nil {
		return err
	}
	var results []*bench.Result
	var failed error // of one size; what was measured of those before is shown all the same
	for _, o.Nodes = range nodes {
		result, err := bench.Run(ctx, o)
		if err != nil {
			failed = fmt.Errorf("%d nodes: %w", o.Nodes, err)
			break
		}
		results = append(results, result)
	}
	if len(results) == 0 {
		return failed
	}
	_, err = io.WriteString(out, bench.Markdown(bench.ThisMachine(*command), results...))
	return errors.Join(failed, err)
}
