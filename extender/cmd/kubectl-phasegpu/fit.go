package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
)

const fitUsage = `Places pods one after the other, in the order of the files, and says for each the node and devices,
or why it fits on none. It decides as the scheduler would: devices by phase, beside what bound pods
reserve now; ResourceQuotas; the device count that kubelet keeps for a pod's whole life; taints and node
affinity. It does not look at CPU, memory and the scheduler's other concerns.

Usage:
  kubectl phasegpu fit -f PODS --nodes FILE   offline: nodes, bound pods and quotas from the files
  kubectl phasegpu fit -f PODS                nodes, bound pods and quotas from the cluster

-f gives the pods; anything with a pod template counts as one pod, whatever its replicas. Bound pods and
quotas may be in either file; pods without a node in --nodes are left alone, but what nominated ones of the same or a
higher priority are going to hold is kept for them (status.nominatedNodeName).

In JSON a pod that fits nowhere has node and allocation null, and only such a pod has reasons.
`

func fitCommand(s streams) *cobra.Command {
	o := newOptions("fit", "place pods on nodes", fitUsage)
	o.readsFiles()
	o.readsPods()
	nodeFiles := o.StringArray("nodes", nil, "`file` with Node manifests, directory, or -; may be repeated")
	nodePolicy := o.String("node-policy", "binpack", "`policy` between nodes of pods without the annotation: binpack or spread")
	devicePolicy := o.String("device-policy", "binpack", "`policy` between devices of pods without the annotation: binpack or spread")
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s, nodeFiles)
		if err != nil {
			return 0, err
		}
		policies := fit.Policies{Release: release}
		if policies.Node, err = wire.ParsePolicy(*nodePolicy); err != nil {
			return 0, fmt.Errorf("--node-policy: %w", err)
		}
		if policies.Device, err = wire.ParsePolicy(*devicePolicy); err != nil {
			return 0, fmt.Errorf("--device-policy: %w", err)
		}
		switch {
		case o.NArg() > 0:
			return 0, fmt.Errorf("%q: pods to place are given with -f FILE", o.Arg(0))
		case len(o.files) == 0:
			return 0, errors.New("nothing to place: give -f FILE (see fit --help)")
		}
		set, state, err := o.fitInput(ctx, s, *nodeFiles)
		if err != nil {
			return 0, err
		}

		problems := append(set.Problems, state.Problems...)
		bound := make([]*corev1.Pod, 0, len(set.Pods)+len(state.Pods))
		for _, pod := range append(set.Pods, state.Pods...) {
			bound = append(bound, pod.Pod)
		}
		on := fit.New(append(set.Nodes, state.Nodes...), bound, append(set.Quotas, state.Quotas...), policies, func(object string, err error) {
			problems = append(problems, input.Problem{Source: input.Source{Object: object}, Err: err, Warning: true})
		})
		if on.Nodes() == 0 {
			problems = append(problems, input.Problem{Err: errors.New("there is no node to place on")})
		}
		result := fit.Report{Pods: []fit.Placement{}}
		var titles []string
		for _, pod := range set.Pods {
			if pod.Spec.NodeName != "" || ended(pod.Pod) || on.Nodes() == 0 {
				continue
			}
			placed, err := on.Place(pod.Pod)
			if err != nil {
				problems = append(problems, input.Problem{Source: pod.Source, Err: err})
				continue
			}
			result.Pods = append(result.Pods, *placed)
			titles = append(titles, title(pod))
		}
		report(s.err, problems)
		err = o.write(s, result, func() error {
			if on.Nodes() == 0 || len(result.Pods) == 0 && len(problems) > 0 {
				return nil
			}
			return result.Text(s.out, s.screen, titles, on)
		})
		switch {
		case err != nil:
			return 0, err
		case (&input.Set{Problems: problems}).Failed():
			return exitBadInput, nil
		case result.Refused() > 0:
			return exitNegative, nil
		}
		return exitFine, nil
	})
}

// fitInput reads the pods to place, and what they are placed on. Without a file of nodes that is
// the cluster.
func (o *options) fitInput(ctx context.Context, s streams, nodeFiles []string) (set, state input.Set, err error) {
	namespace := o.fileNamespace()
	var c *cluster
	if len(nodeFiles) == 0 {
		if c, err = o.cluster(); err != nil {
			return set, state, fmt.Errorf("%w (offline, give --nodes FILE)", err)
		}
		namespace = c.namespace
	}
	if err = o.read(&set, o.files, namespace, s.in); err != nil {
		return set, state, err
	}
	set.RequirePods()
	if c != nil {
		return set, state, c.state(ctx, &state)
	}
	return set, state, o.read(&state, nodeFiles, namespace, s.in)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
