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

const topUsage = `Tells who has the devices: what there is, what is reserved, what of that is steady (will remain when the init
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

func topCommand(s streams) *cobra.Command {
	o := newOptions("top [nodes|devices|namespaces] [NAME...]", "tell what is reserved, and what will be released", topUsage)
	o.readsFiles()
	o.StringVar(&o.release, "release", o.release, "release `policy` of pods without the annotation: per-init, all-inits or hold")
	by := o.String("sort-by", "name", "`order`: name, or most first of "+strings.Join(top.Orders()[1:], ", "))
	watch := o.BoolP("watch", "w", false, "refresh until interrupted")
	interval := o.Duration("interval", 2*time.Second, "`pause` between refreshes")
	o.complete("sort-by", words(top.Orders()...))
	o.complete("release", words(phase.PerInit.String(), phase.AllInits.String(), phase.Hold.String()))
	o.command.ValidArgsFunction = o.topArguments
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s)
		if err != nil {
			return 0, err
		}
		if !slices.Contains(top.Orders(), *by) {
			return 0, fmt.Errorf("--sort-by %s is unknown: use %s", *by, strings.Join(top.Orders(), ", "))
		}
		of, names := topOf(o.Args())
		tally, err := o.tallies(s)
		if err != nil {
			return 0, err
		}
		look := func() (time.Duration, error) {
			started := s.now()
			t, problems, err := tally(ctx, release)
			if err != nil {
				return 0, err
			}
			if unknown := t.Unknown(names, of == "namespaces"); len(unknown) > 0 {
				return 0, fmt.Errorf("%s: there is no such %s, or it has nothing to do with devices (kubectl phasegpu top %s lists those that have)", strings.Join(unknown, ", "), strings.TrimSuffix(nounOf(of), "s"), of)
			}
			var result top.Report
			switch of {
			case "devices":
				result = t.Devices(names, *by)
			case "namespaces":
				result = t.Namespaces(names, *by)
			default:
				result = t.Nodes(names, *by)
			}
			report(s.err, problems)
			return s.now().Sub(started), o.write(s, result, func() error { return result.Text(s.out, s.screen) })
		}
		if !*watch {
			_, err := look()
			return exitFine, err
		}
		return exitFine, o.watch(ctx, &s, *interval, look)
	})
}

// topOf splits the arguments into what is listed, nodes unless it is said, and the names of which.
func topOf(args []string) (of string, names []string) {
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

// nounOf is what the names that can follow are of.
func nounOf(of string) string {
	if of == "namespaces" {
		return of
	}
	return "nodes"
}

// topArguments completes what is listed, and then names.
func (o *options) topArguments(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return words("nodes", "devices", "namespaces")(c, args, toComplete)
	}
	if of, _ := topOf(args); of == "namespaces" {
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

// tallies returns what counts what there is now: in the files, or in the cluster.
func (o *options) tallies(s streams) (func(context.Context, phase.Release) (*top.Tally, []input.Problem, error), error) {
	var c *cluster
	var set *input.Set
	var err error
	if len(o.files) > 0 {
		set, err = o.objects(s)
	} else if c, err = o.cluster(); err != nil {
		err = errOffline(err)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, release phase.Release) (*top.Tally, []input.Problem, error) {
		var problems []input.Problem
		t := top.New(release, func(object string, err error) {
			problems = append(problems, input.Problem{Source: input.Source{Object: object}, Err: err, Warning: true})
		})
		to := collector{t.AddNode, t.AddPod, t.AddQuota}
		if c != nil {
			err := c.each(ctx, []string{""}, metav1.NamespaceAll, to)
			return t, problems, err
		}
		to.take(set)
		return t, problems, nil
	}, nil
}

// watch looks again and again until the context ends. On a terminal each look is drawn over the one before.
func (o *options) watch(ctx context.Context, s *streams, interval time.Duration, look func() (time.Duration, error)) error {
	out, first := s.out, true
	for {
		var frame bytes.Buffer
		s.out = &frame
		took, err := look()
		s.out = out
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if _, err := out.Write(o.frame(frame.Bytes(), s, first)); err != nil {
			return fmt.Errorf("output cannot be written: %w", err)
		}
		first = false
		pause := time.NewTimer(max(interval, 5*took))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// frame is what is written for one look. What was there before is overwritten line by line, so that nothing flickers.
func (o *options) frame(text []byte, s *streams, first bool) []byte {
	if o.output == "json" {
		return text
	}
	when := []byte(s.now().Format(time.DateTime) + "\n")
	switch {
	case s.terminal:
		const home, clearLine, clearBelow = "\x1b[H", "\x1b[K\n", "\x1b[J"
		frame := append([]byte(home), bytes.ReplaceAll(append(when, text...), []byte("\n"), []byte(clearLine))...)
		if first {
			frame = append([]byte("\x1b[2J"), frame...)
		}
		return append(frame, clearBelow...)
	case first:
		return append(when, text...)
	}
	return append(append([]byte("\n"), when...), text...)
}
