package refit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Candidate is an allowed device of the node, with what it would have to bear.
type Candidate struct {
	UUID     string
	Capacity device.Amount
	Others   device.Amount // what the remaining phases of other pods can use
	// Peak is what the pod's own remaining phases could use, with the first of the container's shares that
	// must move placed there; with the record as it is when none must, or when the container Has the device.
	Peak device.Amount
	Has  bool
}

// Candidates returns the allowed devices that the node has, in its order. Whether the container may move at
// all is Decide's business; a refusal here says why nothing can be told.
func Candidates(pod *corev1.Pod, node *corev1.Node, pods []corev1.Pod, r *Request, d Defaults) ([]Candidate, *Refusal) {
	if refusal := Owns(pod, r); refusal != nil {
		return nil, refusal
	}
	if c := kube.Container(&pod.Spec, r.Container.Position); c == nil || c.Name != r.Container.Name {
		return nil, refuse(UnknownContainer, "pod %s has no container %s at position %d", name(pod), r.Container.Name, r.Container.Position)
	}
	_, allocation, refusal := recorded(pod, r)
	if refusal != nil {
		return nil, refusal
	}
	view, refusal := books(node, pods, pod, r, d)
	if refusal != nil {
		return nil, refusal
	}
	truth := kube.LedgerPod(pod, d.Release)
	return weigh(view, truth.Classes, allocation, truth.First, r), nil
}

// weigh looks at each allowed device of a node's book, which is without the pod.
func weigh(v *ledger.View, classes phase.Pod, a device.Allocation, first int, r *Request) []Candidate {
	shares := a[r.Container.Position]
	leaving := slices.IndexFunc(shares, func(s device.Share) bool { return !slices.Contains(r.Allowed, s.UUID) })
	var all []Candidate
	for i := range v.Devices {
		d := &v.Devices[i]
		if !slices.Contains(r.Allowed, d.UUID) {
			continue
		}
		c := Candidate{UUID: d.UUID, Capacity: d.Capacity, Others: v.Held[i].Amount}
		c.Has = slices.ContainsFunc(shares, func(s device.Share) bool { return s.UUID == d.UUID })
		moved := a
		if leaving >= 0 && !c.Has {
			moved = slices.Clone(a)
			moved[r.Container.Position] = slices.Clone(shares)
			moved[r.Container.Position][leaving].UUID = d.UUID
		}
		reserved, err := classes.Reserved(moved, first)
		if err != nil {
			continue // the record's own numbers are out of range, and Decide says so
		}
		for _, h := range reserved.Devices {
			if h.UUID == d.UUID {
				c.Peak = h.Amount
			}
		}
		all = append(all, c)
	}
	return all
}
