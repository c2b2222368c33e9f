// Package podrequest parses, once per pod, what a pod asks for: what Filter, Bind and the requeue pass compute with.
package podrequest

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Request is what a pod without a node asks for.
type Request struct {
	UID, Namespace, Name string
	Priority             int32
	Nominated            string // node that kube-scheduler has nominated the pod to, "" for none
	// Devices is false for a pod that asks for none: it has no Placement and no Charges.
	Devices   bool
	Ledger    ledger.Pod // without a node and an allocation
	Placement *placement.Pod
	// Charges is the least its namespace will be charged, by family. Where only a device decides the charge (a
	// percentage, a whole card) it is left out, and ChargesKnown is false.
	Charges      map[string]ledger.Charge
	ChargesKnown bool
	Alone        bool // in its node's gate, see gate.Pod
	// Shape is the same for pods that fit the same nodes: a digest, because it is kept for every refused pod.
	Shape string
	// SelectorBytes is about how much memory the pod's device selectors take.
	SelectorBytes int
}

// Defaults are the operator's choices for pods that do not choose.
type Defaults struct {
	NodePolicy, DevicePolicy placement.Policy
	Release                  phase.Release
}

// Priority returns a pod's priority, 0 where admission has set none.
func Priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Parse parses a pod. The error names the offending annotation or container.
func Parse(pod *corev1.Pod, d Defaults) (*Request, error) {
	r := &Request{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Priority: Priority(pod), Nominated: pod.Status.NominatedNodeName,
	}
	if !kube.Asks(&pod.Spec) {
		return r, nil
	}
	var err error
	if r.Placement, err = kube.PlacementPod(pod, d.NodePolicy, d.DevicePolicy); err != nil {
		return nil, err
	}
	charges, known, err := kube.Charges(r.Placement.Classes, r.Placement.Requests)
	if err != nil {
		return nil, err
	}
	r.Charges, r.ChargesKnown = charges, true
	for family := range charges {
		r.ChargesKnown = r.ChargesKnown && known[family]
	}
	r.Devices, r.Alone = true, kube.Movable(pod)
	r.Ledger = kube.LedgerPod(pod, d.Release)
	r.Ledger.Node, r.Ledger.Allocation, r.Ledger.Unreadable, r.Ledger.First = "", nil, "", 0
	shape := sha256.Sum256(fmt.Appendf(nil, "%#v", *r.Placement)) // quoted: a model may have blanks in its name
	r.Shape, r.SelectorBytes = string(shape[:]), selectorBytes(pod, &r.Placement.Selector)
	return r, nil
}

// selectorBytes counts the selectors' annotations, and a string header for each value.
func selectorBytes(pod *corev1.Pod, s *placement.Selector) int {
	n := 0
	for _, key := range []string{
		wire.UseUUIDAnnotation, wire.NoUseUUIDAnnotation, wire.UseTypeAnnotation, wire.NoUseTypeAnnotation,
	} {
		n += len(pod.Annotations[key])
	}
	for _, values := range [][]string{s.UseUUIDs, s.AvoidUUIDs, s.UseModels, s.AvoidModels} {
		n += 16 * len(values)
	}
	return n
}

// String gives namespace/name.
func (r *Request) String() string { return r.Namespace + "/" + r.Name }

// ChargesFor returns what the namespace is charged for an allocation of the pod, by family.
func (r *Request) ChargesFor(a device.Allocation) (map[string]ledger.Charge, error) {
	reserved, err := r.Placement.Classes.Reserved(a, 0)
	if err != nil {
		return nil, err
	}
	return reserved.Charges(), nil
}
