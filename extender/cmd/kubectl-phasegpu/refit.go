package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/refit"
	decision "github.com/phasegpu/phasegpu/gen/refit"
)

const refitUsage = `Shows what the refit service would answer now if kubelet allowed a container no other devices than these: the
devices that it would have, or why it would not move, and what each allowed device would hold. The service
itself moves only a container that kubelet is about to allocate for, when the device plugin asks.

Usage:
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,... [-n NS]
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,... -f OBJECTS   offline: the pod, its node and
                                                                               the node's pods from files

You need the rights to get pods and nodes, and to list pods in all namespaces.
`

func refitCommand(s session) *cobra.Command {
	o := newOptions(s, "refit POD CONTAINER", "report whether a container could move to other devices", refitUsage)
	dry := o.Bool("dry-run", false, "only report; there is nothing else that this command does")
	allow := o.StringSlice("allow", nil, "`UUIDs` of the devices that kubelet would allow")
	devicePolicy := o.policyFlag("device")
	o.readsPods()
	o.command.ValidArgsFunction = o.podAndContainer
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check()
		if err != nil {
			return 0, err
		}
		defaults := decision.Defaults{Release: release}
		if defaults.DevicePolicy, err = devicePolicy(); err != nil {
			return 0, err
		}
		allowed := slices.DeleteFunc(*allow, func(uuid string) bool { return uuid == "" })
		switch {
		case !*dry:
			return 0, errors.New("only the device plugin of a node moves containers, when kubelet leaves it no other " +
				"device: " +
				"give --dry-run to see what would come of it")
		case o.NArg() != 2:
			return 0, errors.New("name a pod and one of its containers (see refit --help)")
		case len(allowed) == 0:
			return 0, errors.New("--allow names no device")
		}
		from, err := o.source(ctx, "-f FILE")
		if err != nil {
			return 0, err
		}
		pod, err := from.pod(ctx, o.Arg(0))
		if err != nil {
			return 0, err
		}
		var node *corev1.Node
		var pods []corev1.Pod
		if pod.Spec.NodeName != "" {
			if node, pods, err = from.on(ctx, pod.Spec.NodeName); err != nil {
				return 0, err
			}
		}
		result, err := refit.Decide(identified(pod), node, pods, o.Arg(1), allowed, defaults)
		if err != nil {
			return 0, err
		}
		return o.write(result, result.Refusal != nil)
	})
}
