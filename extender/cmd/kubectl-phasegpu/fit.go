package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
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

func fitCommand(s session) *cobra.Command {
	o := newOptions(s, "fit", "place pods on nodes", fitUsage)
	o.readsPods()
	nodeFiles := o.StringArray("nodes", nil, "`file` with Node manifests, directory, URL, or -; may be repeated")
	nodePolicy, devicePolicy := o.policyFlag("node"), o.policyFlag("device")
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check(*nodeFiles...)
		if err != nil {
			return 0, err
		}
		defaults := podrequest.Defaults{Release: release}
		if defaults.NodePolicy, err = nodePolicy(); err != nil {
			return 0, err
		}
		if defaults.DevicePolicy, err = devicePolicy(); err != nil {
			return 0, err
		}
		switch {
		case o.NArg() > 0:
			return 0, fmt.Errorf("%q: pods to place are given with -f FILE", o.Arg(0))
		case len(o.files) == 0:
			return 0, errors.New("nothing to place: give -f FILE (see fit --help)")
		}
		set, state, err := o.fitInput(ctx, *nodeFiles)
		if err != nil {
			return 0, err
		}
		all := input.Set{Problems: append(set.Problems, state.Problems...)}
		bound := make([]*corev1.Pod, 0, len(set.Pods)+len(state.Pods))
		for _, pod := range append(set.Pods, state.Pods...) {
			bound = append(bound, pod.Pod)
		}
		nodes, quotas := append(set.Nodes, state.Nodes...), append(set.Quotas, state.Quotas...)
		cluster := fit.New(nodes, bound, quotas, defaults, all.Warn)
		if cluster.Nodes() == 0 {
			all.Fail(input.Source{}, errors.New("there is no node to place on"))
		}
		result := fit.NewReport(cluster)
		for _, pod := range set.Pods {
			if pod.Spec.NodeName != "" || kube.IsTerminal(pod.Pod) || cluster.Nodes() == 0 {
				continue
			}
			admit(&all, &pod, result.Place(pod.Pod, pod.Title()))
		}
		o.writeProblems(all.Problems)
		if len(result.Pods) == 0 && len(all.Problems) > 0 && o.output == "text" {
			return exitBadInput, nil // the problems say it all
		}
		code, err := o.write(result, result.Refused() > 0)
		if err == nil && all.Failed() {
			code = exitBadInput
		}
		return code, err
	})
}

// fitInput reads the pods to place, and what they are placed on: the cluster unless there are files of nodes.
func (o *options) fitInput(ctx context.Context, nodeFiles []string) (set, state *input.Set, err error) {
	if len(nodeFiles) > 0 {
		if set, err = o.read(ctx, o.files, o.fileNamespace()); err != nil {
			return nil, nil, err
		}
		set.RequirePods()
		state, err = o.read(ctx, nodeFiles, o.fileNamespace())
		return set, state, err
	}
	c, err := o.cluster()
	if err != nil {
		return nil, nil, fmt.Errorf("%w (offline, give --nodes FILE)", err)
	}
	if set, err = o.read(ctx, o.files, c.namespace); err != nil {
		return nil, nil, err
	}
	set.RequirePods()
	state = new(input.Set)
	if err := c.each(ctx, onNodes(), metav1.NamespaceAll, state); err != nil {
		return nil, nil, fmt.Errorf("%w (give --nodes FILE instead)", err)
	}
	return set, state, nil
}
