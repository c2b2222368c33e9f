package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/top"
)

const topUsage = `Lists the devices: what there is, what is reserved, what of that is steady (will remain when the init
containers that are still to run have ended), and what is releasable (will be free again by then).

Usage:
  kubectl phasegpu top [nodes] [NODE...]             by node
  kubectl phasegpu top devices [NODE...]             by device
  kubectl phasegpu top namespaces [NAMESPACE...]     by namespace, beside its quotas
  kubectl phasegpu top ... -f OBJECTS                offline: nodes, pods and quotas from files

It is computed from what the API server has, by the extender's rules, and needs no extender. A namespace is
charged the largest phase of each of its pods, MiB × devices. --watch lists again every --interval, or after
five times as long as the listing took, whichever is longer.

You need the rights to list pods, nodes and resourcequotas everywhere.
`

func topCommand(s session) *cobra.Command {
	o := newOptions(s, "top [nodes|devices|namespaces] [NAME...]", "report what is reserved, and what will be released",
		topUsage)
	o.takesRelease()
	by := o.String("sort-by", "name", "`order`: name, or most first of "+strings.Join(top.Orders()[1:], ", "))
	watch := o.BoolP("watch", "w", false, "refresh until interrupted")
	interval := o.Duration("interval", 2*time.Second, "`pause` between refreshes")
	complete(o.command, "sort-by", words(top.Orders()...))
	o.command.ValidArgsFunction = o.topArguments
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check()
		if err != nil {
			return 0, err
		}
		if !slices.Contains(top.Orders(), *by) {
			return 0, fmt.Errorf("--sort-by %s is unknown: use %s", *by, strings.Join(top.Orders(), ", "))
		}
		from, err := o.source(ctx, "-f FILE")
		if err != nil {
			return 0, err
		}
		list := func() (time.Duration, error) { return o.list(ctx, from, release, *by) }
		if *watch {
			return exitFine, o.watch(ctx, *interval, list)
		}
		_, err = list()
		return exitFine, err
	})
}

// list writes a list once and returns how long it took to read what is in it.
func (o *options) list(ctx context.Context, from source, release phase.Release, by string) (time.Duration, error) {
	started := o.now()
	var set input.Set
	t := top.New(release, set.Warn)
	if err := from.each(ctx, allPods(), metav1.NamespaceAll, t); err != nil {
		return 0, err
	}
	kind, names := topKind(o.Args())
	if unknown := t.Unknown(names, kind == "namespaces"); len(unknown) > 0 {
		what := "node"
		if kind == "namespaces" {
			what = "namespace"
		}
		return 0, fmt.Errorf("%s: there is no such %s, or it has nothing to do with devices "+
			"(kubectl phasegpu top %s lists those that have)", strings.Join(unknown, ", "), what, kind)
	}
	var result top.Report
	switch kind {
	case "devices":
		result = t.Devices(names, by)
	case "namespaces":
		result = t.Namespaces(names, by)
	default:
		result = t.Nodes(names, by)
	}
	o.writeProblems(set.Problems)
	_, err := o.write(&result, false)
	return o.now().Sub(started), err
}

// topKind splits the arguments into what is listed, nodes by default, and names.
func topKind(args []string) (kind string, names []string) {
	if len(args) > 0 {
		switch args[0] {
		case "nodes", "devices", "namespaces":
			return args[0], args[1:]
		case "node", "device", "namespace":
			return args[0] + "s", args[1:]
		}
	}
	return "nodes", args
}

// topArguments completes what is listed, and then names.
func (o *options) topArguments(
	c *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return words("nodes", "devices", "namespaces")(c, args, toComplete)
	}
	if kind, _ := topKind(args); kind == "namespaces" {
		return o.namespaces(c, args, toComplete)
	}
	return o.fromCluster(c.Context(), toComplete, func(ctx context.Context, c *cluster) ([]string, error) {
		list, err := c.client.Nodes().List(ctx, recent())
		if err != nil {
			return nil, err
		}
		return itemNames(list.Items), nil
	})
}

// watch lists again and again until the context ends. On a terminal each list is drawn over the one before.
func (o *options) watch(ctx context.Context, interval time.Duration, list func() (time.Duration, error)) error {
	out, first := o.Out, true
	for {
		var frame bytes.Buffer
		o.Out = &frame
		took, err := list()
		o.Out = out
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if _, err := out.Write(o.frame(frame.Bytes(), first)); err != nil {
			return fmt.Errorf("output cannot be written: %w", err)
		}
		first = false
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(interval, 5*took)):
		}
	}
}

// frame returns what is written for one list. Lines are overwritten one by one, so that nothing flickers.
func (o *options) frame(text []byte, first bool) []byte {
	if o.output == "json" {
		return text
	}
	text = append([]byte(o.now().Format(time.DateTime)+"\n"), text...)
	switch {
	case o.terminal:
		const clearScreen, home, clearLine, clearBelow = "\x1b[2J", "\x1b[H", "\x1b[K\n", "\x1b[J"
		frame := []byte(home)
		if first {
			frame = []byte(clearScreen + home)
		}
		frame = append(frame, bytes.ReplaceAll(text, []byte("\n"), []byte(clearLine))...)
		return append(frame, clearBelow...)
	case first:
		return text
	}
	return append([]byte("\n"), text...)
}
