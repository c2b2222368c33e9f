package main

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/gen/kube"
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

func explainCommand(s session) *cobra.Command {
	o := newOptions(s, "explain [POD...]", "explain what pods request and hold", explainUsage)
	o.readsPods()
	all := o.BoolP("all-namespaces", "A", false, "pods of all namespaces")
	selector := o.StringP("selector", "l", "", "label `selector` of pods")
	o.command.ValidArgsFunction = o.pods(math.MaxInt)
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check()
		if err != nil {
			return 0, err
		}
		set, err := o.explained(ctx, *all, *selector)
		if err != nil {
			return 0, err
		}
		result := &explain.Report{Pods: []explain.Explanation{}}
		for _, pod := range set.Pods {
			e, err := explain.Pod(pod.Pod, release)
			admit(set, &pod, err)
			if e != nil {
				e.Title = pod.Title()
				result.Pods = append(result.Pods, *e)
			}
		}
		o.writeProblems(set.Problems)
		code, err := o.write(result, false)
		if err == nil && set.Failed() {
			code = exitBadInput
		}
		return code, err
	})
}

// explained reads the pods to explain.
func (o *options) explained(ctx context.Context, all bool, selector string) (*input.Set, error) {
	online := o.NArg() > 0 || all || selector != ""
	switch {
	case online && len(o.files) > 0:
		return nil, errors.New("-f and pods of the cluster exclude each other: explain them one after the other")
	case o.NArg() > 0 && (all || selector != ""):
		return nil, errors.New("pod names exclude -A and -l")
	case !online && len(o.files) == 0:
		return nil, errors.New("nothing to explain: " +
			"give -f FILE, names of pods, -l SELECTOR or -A (see explain --help)")
	case !online:
		set, err := o.read(ctx, o.files, o.fileNamespace())
		if err == nil {
			set.RequirePods()
		}
		return set, err
	}
	c, err := o.cluster()
	if err != nil {
		return nil, err
	}
	set := new(input.Set)
	if o.NArg() > 0 {
		c.pods(ctx, set, o.Args())
		return set, nil
	}
	namespace := c.namespace
	if all {
		namespace = metav1.NamespaceAll
	}
	return set, c.eachPod(ctx, namespace, metav1.ListOptions{LabelSelector: selector}, func(pod *corev1.Pod) {
		if kube.Asks(&pod.Spec) {
			set.AddPod(pod)
		}
	})
}
