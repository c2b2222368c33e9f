package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/refit"
	decision "github.com/phasegpu/phasegpu/gen/refit"
)

const refitUsage = `Tells what the refit service would answer now if kubelet allowed a container no other devices than these: the
devices that it would have, or why it would not move, and what each allowed device would have to bear. The
service itself moves only a container that kubelet is about to allocate for, when the device plugin asks.

Usage:
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,... [-n NS]
  kubectl phasegpu refit --dry-run POD CONTAINER --allow UUID,... -f OBJECTS   offline: the pod, its node and
                                                                               the node's pods from files

You need the rights to get pods and nodes, and to list pods in all namespaces.
`

func refitCommand(s streams) *cobra.Command {
	o := newOptions("refit POD CONTAINER", "tell whether a container could move to other devices", refitUsage)
	dry := o.Bool("dry-run", false, "only tell; there is nothing else that this command does")
	allow := o.StringSlice("allow", nil, "`UUIDs` of the devices that kubelet would allow")
	devicePolicy := o.String("device-policy", "binpack", "`policy` between devices of pods without the annotation: binpack or spread")
	o.readsFiles()
	o.readsPods()
	o.command.ValidArgsFunction = o.podAndContainer
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s)
		if err != nil {
			return 0, err
		}
		defaults := decision.Defaults{Release: release}
		if defaults.DevicePolicy, err = wire.ParsePolicy(*devicePolicy); err != nil {
			return 0, fmt.Errorf("--device-policy: %w", err)
		}
		allowed := slices.DeleteFunc(*allow, func(uuid string) bool { return uuid == "" })
		switch {
		case !*dry:
			return 0, errors.New("only the device plugin of a node moves containers, when kubelet leaves it no other device: give --dry-run to see what would come of it")
		case o.NArg() != 2:
			return 0, errors.New("name a pod and one of its containers (see refit --help)")
		case len(allowed) == 0:
			return 0, errors.New("--allow names no device")
		}
		at, err := o.situation(ctx, s, o.Arg(0))
		if err != nil {
			return 0, err
		}
		result, err := refit.Of(at.pod, at.node, at.pods, o.Arg(1), allowed, defaults)
		if err != nil {
			return 0, err
		}
		err = o.write(s, result, func() error { return result.Text(s.out, s.screen) })
		switch {
		case err != nil:
			return 0, err
		case result.Refusal != nil:
			return exitNegative, nil
		}
		return exitFine, nil
	})
}

// situation is a pod, its node, nil when there is none, and the pods there.
type situation struct {
	pod  *corev1.Pod
	node *corev1.Node
	pods []corev1.Pod
}

// situation finds a pod in the files, or asks the cluster.
func (o *options) situation(ctx context.Context, s streams, name string) (*situation, error) {
	if len(o.files) == 0 {
		c, err := o.cluster()
		if err != nil {
			return nil, errOffline(err)
		}
		return c.situation(ctx, name)
	}
	set, err := o.objects(s)
	if err != nil {
		return nil, err
	}
	pod, err := o.find(set, name)
	if err != nil {
		return nil, err
	}
	at := &situation{pod: identified(pod)}
	for _, p := range set.Pods {
		if p.Kind == "Pod" && p.Spec.NodeName == at.pod.Spec.NodeName {
			at.pods = append(at.pods, *identified(p.Pod))
		}
	}
	for _, node := range set.Nodes {
		if node.Name == at.pod.Spec.NodeName {
			at.node = node
		}
	}
	return at, nil
}

// identified returns a copy of a file's pod that has a UID: the decision tells pods apart by it.
func identified(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.UID = cmp.Or(pod.UID, types.UID(pod.Namespace+"/"+pod.Name))
	return pod
}

// situation asks for what the refit service reads.
func (c *cluster) situation(ctx context.Context, name string) (*situation, error) {
	pod, err := c.pod(ctx, name)
	if err != nil || pod.Spec.NodeName == "" {
		return &situation{pod: pod}, err
	}
	node, err := c.client.Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := &situation{pod: pod, node: node}
	there := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", pod.Spec.NodeName).String()}
	return at, c.eachPod(ctx, metav1.NamespaceAll, there, func(pod *corev1.Pod) { at.pods = append(at.pods, *pod) })
}
