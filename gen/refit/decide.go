package refit

import (
	"slices"

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

// Defaults are the operator's choices for pods that do not choose: the extender's, or the books differ.
type Defaults struct {
	Release      phase.Release
	DevicePolicy placement.Policy
}

// Decision is what becomes of a container's devices.
type Decision struct {
	// Allocation is the pod's whole record as it will be.
	Allocation device.Allocation
	// Changed tells that the record must be written: Value to Annotation. Nothing in it but the moved
	// UUIDs differs from what is there.
	Changed           bool
	Annotation, Value string
}

// Devices returns the UUIDs of the container at a position, in the record's order.
func (d *Decision) Devices(position int) []string {
	var uuids []string
	for _, share := range d.Allocation[position] {
		uuids = append(uuids, share.UUID)
	}
	return uuids
}

// Decide answers a question from what the API server holds: the pod, its node and all pods of the node
// (the pod itself among them or not), each nil when there is none. It changes nothing.
//
// The container must be one that kubelet is about to allocate for. If its recorded devices are allowed,
// they stay, whatever else is wrong. Otherwise the container is placed anew within the allowed devices by
// placement.Refit, on the node's books as the ledger keeps them.
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
		return Decision{}, refuse(NotOptedIn, "pod %s: %v", name(pod), err)
	} else if alignment == wire.Recorded {
		return Decision{}, refuse(NotOptedIn, "pod %s has no annotation %s, so its devices stay where they are recorded: set it to %v or %v to let them follow kubelet",
			name(pod), wire.NUMAAlignment, wire.BestEffort, wire.Strict)
	}
	p, err := kube.PlacementPod(pod, placement.Binpack, d.DevicePolicy)
	if err != nil {
		return Decision{}, refuse(UnreadablePod, "pod %s: %v", name(pod), err)
	}
	view, refusal := books(node, pods, pod, r, d)
	if refusal != nil {
		return Decision{}, refusal
	}
	first := kube.LedgerPod(pod, d.Release).First
	shares, reason := placement.Refit(view.Placement(), p, allocation, first, position, allowed)
	if reason != placement.Fits {
		return Decision{}, &Refusal{Reason: of(reason), Message: why(view, p, allocation, first, r, reason)}
	}
	moved := slices.Clone(allocation)
	moved[position] = shares
	return Decision{
		Allocation: moved, Changed: true, Annotation: family.PodAnnotation,
		Value: rewrite(pod.Annotations[family.PodAnnotation], position, allocation[position], shares),
	}, nil
}

// Owns reports whether there is such a pod and it is on the node that the question names: what a caller
// must be allowed to ask about before anything else is read.
func Owns(pod *corev1.Pod, r *Request) *Refusal {
	switch {
	case pod == nil:
		return refuse(PodGone, "pod %s/%s is gone", r.Pod.Namespace, r.Pod.Name)
	case string(pod.UID) != r.Pod.UID:
		return refuse(PodReplaced, "pod %s has UID %s, not %s: it was deleted and created again", name(pod), pod.UID, r.Pod.UID)
	case pod.Spec.NodeName == "":
		return refuse(BoundElsewhere, "pod %s is not bound to node %s, nor to any", name(pod), r.Node)
	case pod.Spec.NodeName != r.Node:
		return refuse(BoundElsewhere, "pod %s is bound to node %s, not %s", name(pod), pod.Spec.NodeName, r.Node)
	}
	return nil
}

// pending reports whether kubelet is about to allocate for the container, and for no other pod.
func pending(pod *corev1.Pod, pods []corev1.Pod, r *Request) *Refusal {
	if pod.DeletionTimestamp != nil {
		return refuse(PodGone, "pod %s is being deleted", name(pod))
	}
	c := kube.Container(&pod.Spec, r.Container.Position)
	if c == nil || c.Name != r.Container.Name {
		return refuse(UnknownContainer, "pod %s has no container %s at position %d", name(pod), r.Container.Name, r.Container.Position)
	}
	switch state := kube.Status(pod).State(r.Container.Position); {
	case state.Running:
		return refuse(AlreadyStarted, "container %s of pod %s is running: it keeps its devices", c.Name, name(pod))
	case state.Terminated:
		return refuse(AlreadyStarted, "container %s of pod %s has run: it keeps its devices", c.Name, name(pod))
	case !kube.Recorded(pod):
		return refuse(NotRecorded, "pod %s has no record of its devices: only phasegpu's scheduler may place it", name(pod))
	case !kube.InGate(pod):
		return refuse(NotPending, "kubelet has reported on pod %s (phase %s): its devices are allocated", name(pod), pod.Status.Phase)
	}
	for i := range pods {
		other := &pods[i]
		if other.UID != pod.UID && other.Spec.NodeName == r.Node && kube.InGate(other) {
			return refuse(AnotherInGate, "kubelet has not reported on pod %s of node %s either, and does not say for which one it allocates", name(other), r.Node)
		}
	}
	return nil
}

// recorded returns the family asked for and the pod's record, in which the container has devices of it.
func recorded(pod *corev1.Pod, r *Request) (*families.Family, device.Allocation, *Refusal) {
	family := classify.Family(r.Family)
	switch {
	case family == nil:
		return nil, nil, refuse(UnknownFamily, "there is no device family %q", r.Family)
	case !family.Refit:
		return nil, nil, refuse(NoRefitSupport, "devices of family %s are not moved: it is declared without refit", family.Word)
	}
	allocation, err := kube.Allocation(pod)
	if err != nil {
		return nil, nil, refuse(UnreadableRecord, "pod %s: %v", name(pod), err)
	}
	shares := allocation[r.Container.Position]
	switch {
	case len(shares) == 0:
		return nil, nil, refuse(NotRecorded, "container %s of pod %s has no devices in the pod's record", r.Container.Name, name(pod))
	case shares[0].Family != family.Word:
		return nil, nil, refuse(NotRecorded, "container %s of pod %s has devices of family %s in the pod's record, not of %s",
			r.Container.Name, name(pod), shares[0].Family, family.Word)
	}
	return family, allocation, nil
}

// books returns the node's book without the pod, unless the node takes nothing.
func books(node *corev1.Node, pods []corev1.Pod, pod *corev1.Pod, r *Request, d Defaults) (*ledger.View, *Refusal) {
	if node == nil {
		return nil, refuse(NodeGone, "node %s is gone", r.Node)
	}
	truth := kube.Node(node)
	if truth.Unreadable != "" {
		return nil, refuse(UnreadableInventory, "node %s: %s", r.Node, truth.Unreadable)
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
		return nil, refuse(UnreadableNeighbour, "node %s takes nothing until its pods' records can be read: %s", r.Node, view.Unreadable)
	}
	return view, nil
}

func name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
