// Command demo plays the scenarios of package scenarios live, on a real control plane with webhook,
// extender and simulated nodes, and shows what was submitted, what one who adds up containers would have
// said of it, what happened and what is reserved. It fails if anything differs from what was expected.
//
//	make demo               # all
//	make demo ONLY="3 9"    # some
//
// With KEEP=1 in the environment the cluster runs on, with a few nodes, until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/controlplane/build"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	err := run(ctx, os.Args[1:], os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0", newScreen(os.Stdout))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, keep bool, out *screen) (err error) {
	stories, err := chosen(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "phasegpu-demo-")
	if err != nil {
		return err
	}
	cluster, kubectl, err := start(ctx, dir, out)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		err = errors.Join(err, cluster.Stop())
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "\nThe logs of all programs are in %s.\n", cluster.LogDir())
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	err = play(ctx, stories, cluster, kubectl, out)
	if keep && ctx.Err() == nil {
		return errors.Join(err, stay(ctx, cluster, kubectl, out))
	}
	return err
}

// chosen returns the scenarios with the given numbers, all if there are none.
func chosen(numbers []string) ([]scenarios.Scenario, error) {
	all := scenarios.All()
	if len(numbers) == 0 {
		return all, nil
	}
	byNumber := map[string]scenarios.Scenario{}
	var known []string
	for _, s := range all {
		n := strconv.Itoa(s.Number)
		byNumber[n], known = s, append(known, n)
	}
	var some []scenarios.Scenario
	for _, n := range numbers {
		s, ok := byNumber[n]
		if !ok {
			return nil, fmt.Errorf("there is no scenario %q to show: name some by number, of %s", n,
				strings.Join(known, ", "))
		}
		some = append(some, s)
	}
	return some, nil
}

// start builds what is missing and starts the cluster. kubectl is the path of kubectl-phasegpu.
func start(ctx context.Context, dir string, out *screen) (cluster *stack.Stack, kubectl string, err error) {
	fmt.Fprintf(out, "%s\n", out.paint(bold,
		"phasegpu, live: real etcd, kube-apiserver and kube-scheduler, simulated nodes with GPUs"))
	fmt.Fprint(out, "The accountant charges a pod the sum of its containers, as if all of them ran at once.\n"+
		"phasegpu charges what can run together, and no longer than it can.\n\n")
	if err := logElsewhere(filepath.Join(dir, "demo.log")); err != nil {
		return nil, "", err
	}
	if _, err := build.Programs(ctx, os.Stderr, build.ControlPlane()...); err != nil { // it shows its progress
		return nil, "", err
	}
	var programs stack.Programs
	if err := out.step("building webhook, extender and kubectl-phasegpu", func() (err error) {
		programs, kubectl, err = stack.BuildInTree(ctx)
		return err
	}); err != nil {
		return nil, "", err
	}
	err = out.step("starting the control plane, webhook and extender", func() (err error) {
		cluster, err = stack.Start(ctx, stack.Options{
			ControlPlane: controlplane.Options{Dir: dir}, Programs: programs,
		})
		return err
	})
	return cluster, kubectl, err
}

// logElsewhere keeps what the Kubernetes client logs off the screen.
func logElsewhere(path string) error {
	f, err := os.Create(path) // open until the demo ends
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.SetOutput(f)
	return errors.Join(flags.Set("logtostderr", "false"), flags.Set("stderrthreshold", "FATAL"))
}

// play shows the scenarios and then how they went.
func play(ctx context.Context, stories []scenarios.Scenario, cluster *stack.Stack, kubectl string, out *screen) error {
	began := time.Now()
	var results []result
	drawn := map[string]bool{}
	for _, story := range stories {
		results = append(results, perform(ctx, story, cluster, kubectl, drawn, out))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	out.title("In short")
	failed := 0
	for _, r := range results {
		if r.failure != "" {
			failed++
		}
		fmt.Fprintf(out, "  %s %2d  %s %s\n", out.verdict(r.failure == ""), r.Number, pad(r.Title, out.width-20),
			out.paint(dim, seconds(r.took)))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scenarios went otherwise than expected", failed, len(results))
	}
	fmt.Fprintf(out, "\n%s\n", out.paint(green,
		fmt.Sprintf("All %d as expected, in %s.", len(results), seconds(time.Since(began)))))
	return nil
}
