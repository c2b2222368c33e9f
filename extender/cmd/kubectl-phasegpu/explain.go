package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

const explainUsage = `Explains pods: what each container asks for, the phases the pod passes through and who is alive in
each, its peak and steady state, and, once it is bound, what is reserved for it now.

Usage:
  kubectl phasegpu explain -f FILE|-         pods and anything with a pod template (YAML or JSON)
  kubectl phasegpu explain POD... [-n NS]    pods of the cluster
  kubectl phasegpu explain -A | -l SELECTOR  pods of the cluster that ask for devices

In JSON a memory amount that only a device can settle (a percentage, or the whole card) is null, and
a pod of several families has one total over all of them.
`

func explainCommand(s streams) *cobra.Command {
	o := newOptions("explain [POD...]", "explain what pods ask for and hold", explainUsage)
	o.readsFiles()
	o.readsPods()
	all := o.BoolP("all-namespaces", "A", false, "pods of all namespaces")
	selector := o.StringP("selector", "l", "", "label `selector` of pods")
	o.command.ValidArgsFunction = o.pods(math.MaxInt)
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s)
		if err != nil {
			return 0, err
		}
		online := o.NArg() > 0 || *all || *selector != ""
		var set input.Set
		switch {
		case online && len(o.files) > 0:
			return 0, errors.New("-f and pods of the cluster exclude each other: explain them one after the other")
		case o.NArg() > 0 && (*all || *selector != ""):
			return 0, errors.New("pod names exclude -A and -l")
		case online:
			cluster, err := o.cluster()
			if err != nil {
				return 0, err
			}
			if o.NArg() > 0 {
				cluster.pods(ctx, &set, o.Args())
			} else if err := cluster.podsWithDevices(ctx, &set, *all, *selector); err != nil {
				return 0, err
			}
		case len(o.files) == 0:
			return 0, errors.New("nothing to explain: give -f FILE, names of pods, -l SELECTOR or -A (see explain --help)")
		default:
			if err := o.read(&set, o.files, o.fileNamespace(), s.in); err != nil {
				return 0, err
			}
			set.RequirePods()
		}

		result := explain.Report{Pods: []explain.Pod{}}
		var titles []string
		for _, pod := range set.Pods {
			e, err := explain.Of(pod.Pod, release)
			if err != nil {
				set.Problems = append(set.Problems, input.Problem{Source: pod.Source, Err: err})
			}
			if e != nil {
				result.Pods = append(result.Pods, *e)
				titles = append(titles, title(pod))
			}
		}
		report(s.err, set.Problems)
		if err := o.write(s, result, func() error { return writeExplained(result, titles, s) }); err != nil {
			return 0, err
		}
		if set.Failed() {
			return exitBadInput, nil
		}
		return exitFine, nil
	})
}

func writeExplained(result explain.Report, titles []string, s streams) error {
	out := render.Printer{Out: s.out}
	for i := range result.Pods {
		if i > 0 {
			out.Line()
			out.Line()
		}
		if out.Err == nil {
			out.Err = result.Pods[i].Text(s.out, s.screen, titles[i])
		}
	}
	return out.Err
}

// title is what a pod is called in text.
func title(pod input.Pod) string {
	text := fmt.Sprintf("%s %s/%s", pod.Kind, pod.Namespace, pod.Name)
	switch {
	case pod.Kind == "Pod":
		return text
	case pod.Replicas > 1:
		return text + fmt.Sprintf(", one of %d replicas", pod.Replicas)
	default:
		return text + ", a pod of its template"
	}
}
