// Package podrequest reads, once per pod, what a pod asks for: what Filter, Bind and the wake-up compute with.
package podrequest

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Pod is what a pod that is not bound yet asks for.
type Pod struct {
	UID, Namespace, Name string
	Priority             int32
	Nominated            string // node that kube-scheduler has evicted others from for it, "" for none
	// Devices is false for a pod that asks for none: it has no Placement and no Charges.
	Devices   bool
	Ledger    ledger.Pod // without a node and an allocation
	Placement *placement.Pod
	// Charges is the least its namespace will be charged, by family; what only a device can settle
	// (a percentage, a whole card) is left out, and Settled is then false.
	Charges map[string]ledger.Charge
	Settled bool
	Alone   bool // in its node's gate, see gate.Pod
	// Shape is the same for pods that fit the same nodes: a digest, because it is remembered.
	Shape string
	// Text is about how many bytes the pod's device selectors take: their annotations and a string header
	// for each value.
	Text int
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

// Read reads a pod. The error names the offending annotation or container.
func Read(pod *corev1.Pod, d Defaults) (*Pod, error) {
	p := &Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
	p.Priority, p.Nominated = Priority(pod), pod.Status.NominatedNodeName
	if !kube.Asks(&pod.Spec) {
		return p, nil
	}
	var err error
	if p.Placement, err = kube.PlacementPod(pod, d.NodePolicy, d.DevicePolicy); err != nil {
		return nil, err
	}
	charges, known, err := kube.Charges(p.Placement.Classes, p.Placement.Requests)
	if err != nil {
		return nil, err
	}
	p.Charges, p.Settled = charges, true
	for family := range charges {
		p.Settled = p.Settled && known[family]
	}
	p.Devices, p.Alone = true, kube.Movable(pod)
	p.Ledger = kube.LedgerPod(pod, d.Release)
	p.Ledger.Node, p.Ledger.Allocation, p.Ledger.Unreadable, p.Ledger.First = "", nil, "", 0
	shape := sha256.Sum256(fmt.Appendf(nil, "%#v", *p.Placement)) // quoted: a model may have blanks in its name
	p.Shape, p.Text = string(shape[:]), text(pod, &p.Placement.Selector)
	return p, nil
}

func text(pod *corev1.Pod, s *placement.Selector) int {
	n := 0
	for _, key := range []string{wire.UseUUIDAnnotation, wire.NoUseUUIDAnnotation, wire.UseTypeAnnotation, wire.NoUseTypeAnnotation} {
		n += len(pod.Annotations[key])
	}
	for _, values := range [][]string{s.UseUUIDs, s.AvoidUUIDs, s.UseModels, s.AvoidModels} {
		n += 16 * len(values)
	}
	return n
}

// String gives namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }
