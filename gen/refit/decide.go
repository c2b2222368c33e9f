package refit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Defaults apply to pods without annotations of their own. They must be the extender's, or the books differ.
type Defaults struct {
	Release      phase.Release
	DevicePolicy placement.Policy
}

// Decision is where a container's devices are to be.
type Decision struct {
	// Allocation is the pod's new allocation, all containers included.
	Allocation device.Allocation
	// Changed means that Value must be written to Annotation. It differs from the current value in the moved
	// UUIDs only.
	Changed           bool
	Annotation, Value string
}

// Devices returns the UUIDs of the container at a position, in the record's order.
func (d *Decision) Devices(position int) []string {
	return uuids(d.Allocation[position])
}

// Decide decides a request from API objects: the pod and its node (nil if there is none) and the node's pods (with
// or without the pod itself). It is pure.
//
// Kubelet must be about to allocate for the container. If its recorded devices are allowed, they stay, whatever else
// is wrong. Otherwise placement.Refit places the container within the allowed devices, on the node's books as the
// ledger keeps them.
func Decide(pod *corev1.Pod, node *corev1.Node, pods []corev1.Pod, r *Request, d Defaults) (Decision, *Refusal) {
	if refusal := Owns(pod, r); refusal != nil {
		return Decision{}, refusal
	}
	if refusal := pending(pod, pods, r); refusal != nil {
		return Decision{}, refusal
	}
	family, allocation, refusal := recorded(pod, r)
	if refusal != nil {
		return Decision{}, refusal
	}
	position := r.Container.Position
	allowed := func(uuid string) bool { return slices.Contains(r.Allowed, uuid) }
	if !slices.ContainsFunc(allocation[position], func(s device.Share) bool { return !allowed(s.UUID) }) {
		return Decision{Allocation: allocation}, nil
	}
	if alignment, err := kube.Alignment(pod); err != nil {
		return Decision{}, Refuse(NotOptedIn, "pod %s: %v", name(pod), err)
	} else if alignment == wire.Recorded {
		return Decision{}, Refuse(NotOptedIn, "pod %s has no annotation %s: set it to %v or %v",
			name(pod), wire.NUMAAlignment, wire.BestEffort, wire.Strict)
	}
	p, err := kube.PlacementPod(pod, placement.Binpack, d.DevicePolicy)
	if err != nil {
		return Decision{}, Refuse(UnreadablePod, "pod %s: %v", name(pod), err)
	}
	view, refusal := books(node, pods, pod, r, d)
	if refusal != nil {
		return Decision{}, refusal
	}
	first := kube.LedgerPod(pod, d.Release).First
	shares, reason := placement.Refit(view.Placement(), p, allocation, first, position, allowed)
	if reason != placement.Fits {
		return Decision{}, &Refusal{Reason: fromPlacement(reason), Message: why(view, p, allocation, first, r, reason)}
	}
	moved := slices.Clone(allocation)
	moved[position] = shares
	return Decision{
		Allocation: moved, Changed: true, Annotation: family.PodAnnotation,
		Value: rewrite(pod.Annotations[family.PodAnnotation], position, allocation[position], shares),
	}, nil
}

// Owns checks that the pod exists and is on the request's node. It comes first, because a device plugin may only
// ask about pods of its own node.
func Owns(pod *corev1.Pod, r *Request) *Refusal {
	switch {
	case pod == nil:
		return Refuse(PodGone, "pod %s/%s is gone", r.Pod.Namespace, r.Pod.Name)
	case string(pod.UID) != r.Pod.UID:
		return Refuse(PodReplaced, "pod %s has UID %s, not %s: it was deleted and created again",
			name(pod), pod.UID, r.Pod.UID)
	case pod.Spec.NodeName == "":
		return Refuse(BoundElsewhere, "pod %s is not bound to node %s, nor to any", name(pod), r.Node)
	case pod.Spec.NodeName != r.Node:
		return Refuse(BoundElsewhere, "pod %s is bound to node %s, not %s", name(pod), pod.Spec.NodeName, r.Node)
	}
	return nil
}

// pending checks that kubelet is about to allocate for the container, and for no other pod.
func pending(pod *corev1.Pod, pods []corev1.Pod, r *Request) *Refusal {
	if pod.DeletionTimestamp != nil {
		return Refuse(PodGone, "pod %s is being deleted", name(pod))
	}
	if refusal := exists(pod, r); refusal != nil {
		return refusal
	}
	container := r.Container.Name
	switch state := kube.Status(pod).State(r.Container.Position); {
	case state.Running:
		return Refuse(AlreadyStarted, "container %s of pod %s runs: it keeps its devices", container, name(pod))
	case state.Terminated:
		return Refuse(AlreadyStarted, "container %s of pod %s has run: it keeps its devices", container, name(pod))
	case !kube.Recorded(pod):
		return Refuse(NotRecorded, "pod %s has no recorded devices: only phasegpu's scheduler may place it", name(pod))
	case !kube.InGate(pod):
		return Refuse(NotPending, "kubelet has reported on pod %s (phase %s): its devices are allocated",
			name(pod), pod.Status.Phase)
	}
	for i := range pods {
		other := &pods[i]
		if other.UID != pod.UID && other.Spec.NodeName == r.Node && kube.InGate(other) {
			return Refuse(AnotherInGate,
				"pod %s is in the gate of node %s too, and kubelet does not say for which one it allocates",
				name(other), r.Node)
		}
	}
	return nil
}

// exists checks that the pod has a container of the request's name at its position.
func exists(pod *corev1.Pod, r *Request) *Refusal {
	if c := kube.Container(&pod.Spec, r.Container.Position); c == nil || c.Name != r.Container.Name {
		return Refuse(UnknownContainer, "pod %s has no container %s at position %d",
			name(pod), r.Container.Name, r.Container.Position)
	}
	return nil
}

// recorded returns the family and the pod's allocation, in which the container has devices of that family.
func recorded(pod *corev1.Pod, r *Request) (*families.Family, device.Allocation, *Refusal) {
	family := classify.Family(r.Family)
	switch {
	case family == nil:
		return nil, nil, Refuse(UnknownFamily, "there is no device family %q", r.Family)
	case !family.Refit:
		return nil, nil, Refuse(NoRefitSupport, "family %s is declared without refit", family.Word)
	}
	allocation, err := kube.Allocation(pod)
	if err != nil {
		return nil, nil, Refuse(UnreadableRecord, "pod %s: %v", name(pod), err)
	}
	shares := allocation[r.Container.Position]
	switch {
	case len(shares) == 0:
		return nil, nil, Refuse(NotRecorded, "pod %s has no record for container %s", name(pod), r.Container.Name)
	case shares[0].Family != family.Word:
		return nil, nil, Refuse(NotRecorded, "the record of pod %s has devices of family %s, not %s, for container %s",
			name(pod), shares[0].Family, family.Word, r.Container.Name)
	}
	return family, allocation, nil
}

// books returns the node's books without the pod. It refuses if the node takes nothing.
func books(node *corev1.Node, pods []corev1.Pod, pod *corev1.Pod, r *Request, d Defaults) (*ledger.View, *Refusal) {
	if node == nil {
		return nil, Refuse(NodeGone, "node %s is gone", r.Node)
	}
	truth := kube.Node(node)
	if truth.Unreadable != "" {
		return nil, Refuse(UnreadableInventory, "node %s: %s", r.Node, truth.Unreadable)
	}
	book := ledger.New()
	book.SetNode(truth)
	for i := range pods {
		if other := &pods[i]; other.UID != pod.UID && other.Spec.NodeName == r.Node {
			book.Observe(kube.LedgerPod(other, d.Release))
		}
	}
	view := book.Node(truth.Name)
	if view.Unreadable != "" {
		return nil, Refuse(UnreadableNeighbour, "node %s takes nothing until its pods' records can be read: %s",
			r.Node, view.Unreadable)
	}
	return view, nil
}

// rewrite replaces the UUIDs of one container's shares in a record and keeps every other byte. wire.DecodeAllocation
// must read was at that position.
func rewrite(text string, position int, was, now []device.Share) string {
	entries := strings.SplitAfter(text, ";")
	shares := strings.SplitAfter(entries[position], ":")
	for i := range was {
		// A share begins with its UUID; before the first there may be blanks.
		shares[i] = strings.Replace(shares[i], was[i].UUID, now[i].UUID, 1)
	}
	entries[position] = strings.Join(shares, "")
	return strings.Join(entries, "")
}

func name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
