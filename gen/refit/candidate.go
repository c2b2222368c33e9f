package refit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// maxListed bounds the devices for which a message gives numbers.
const maxListed = 4

// Candidate is an allowed device of the node and its load if the container moves there.
type Candidate struct {
	UUID     string
	Capacity device.Amount
	Others   device.Amount // reserved by other pods
	// Peak is what the pod itself would reserve with the container's first moving share on this device. If no share
	// moves, or the container Has the device, it is what the pod reserves now.
	Peak device.Amount
	Has  bool
}

// Candidates returns the node's allowed devices, in the node's order. Whether the container may move is for Decide.
func Candidates(
	pod *corev1.Pod, node *corev1.Node, pods []corev1.Pod, r *Request, d Defaults,
) ([]Candidate, *Refusal) {
	if refusal := Owns(pod, r); refusal != nil {
		return nil, refusal
	}
	if refusal := exists(pod, r); refusal != nil {
		return nil, refusal
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

// weigh returns the candidates in the node's books, which must be without the pod.
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
			continue // the record's numbers are out of range; Decide reports it
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

// why explains a refusal in one line: placement's sentence, and the numbers of the first allowed devices.
func why(
	v *ledger.View, p *placement.Pod, a device.Allocation, first int, r *Request, reason placement.Reason,
) string {
	var text strings.Builder
	fmt.Fprintf(&text, "container %s of pod %s/%s cannot leave %s for the allowed devices of node %s: %v",
		r.Container.Name, r.Pod.Namespace, r.Pod.Name, strings.Join(uuids(a[r.Container.Position]), ","),
		r.Node, reason)
	all := weigh(v, p.Classes, a, first, r)
	for _, c := range all[:min(len(all), maxListed)] {
		fmt.Fprintf(&text, "; %s has %v, others hold %v", c.UUID, c.Capacity, c.Others)
		if !c.Has {
			fmt.Fprintf(&text, ", with the container there this pod would hold %v at its peak", c.Peak)
		}
	}
	return text.String()
}

func uuids(shares []device.Share) []string {
	names := make([]string, len(shares))
	for i, s := range shares {
		names[i] = s.UUID
	}
	return names
}
