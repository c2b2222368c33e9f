package podrequest

import (
	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
)

// Refusal is why a pod cannot go on a node: a sentence out of a small set, so that kube-scheduler can
// add up how many nodes share it. The zero Refusal is none.
type Refusal struct {
	Reason  string
	Kind    string // the small set's name for a Reason that has numbers in it, else ""
	Misses  int64  // by how much, of such a Reason
	Lasting bool   // the node would not do however empty it became
}

// What the books say of a node, beside placement's reasons.
var (
	unknownNode    = Refusal{Reason: "GPU inventory not known yet"}
	unreadableNode = Refusal{Reason: "Unreadable GPU inventory"}
	unreadablePod  = Refusal{Reason: "Pods with an unreadable GPU allocation"}
)

// Reasons lists the sentences of Place and Rate.
func Reasons() []string {
	all := []string{unknownNode.Reason, unreadableNode.Reason, unreadablePod.Reason}
	for _, r := range placement.Reasons() {
		all = append(all, r.String())
	}
	return all
}

// Place decides where on a node the pod goes. v is what the node is without the pod, nil for a node that
// the books do not know. The allocation is valid until the scratch is used again.
func (p *Pod) Place(s *placement.Scratch, v *ledger.View) (device.Allocation, Refusal) {
	n, refusal := open(v)
	if refusal.Reason != "" {
		return nil, refusal
	}
	a, reason := s.Fit(n, p.Placement)
	return a, of(reason)
}

// Rate says how good a node is for the pod, from 0 to 1 by the pod's node policy.
func (p *Pod) Rate(s *placement.Scratch, v *ledger.View) (float64, Refusal) {
	n, refusal := open(v)
	if refusal.Reason != "" {
		return 0, refusal
	}
	score, reason := s.Rate(n, p.Placement)
	return score, of(reason)
}

// open returns the node as placement sees it, unless it takes no new pods.
func open(v *ledger.View) (placement.Node, Refusal) {
	if v == nil || !v.Known {
		return placement.Node{}, unknownNode
	}
	if v.Unreadable != "" {
		for _, e := range v.Pods {
			if e.Problem != "" {
				return placement.Node{}, unreadablePod
			}
		}
		return placement.Node{}, unreadableNode
	}
	return v.Placement(), Refusal{}
}

func of(r placement.Reason) Refusal {
	if r == placement.Fits {
		return Refusal{}
	}
	return Refusal{Reason: r.String(), Lasting: r.Unresolvable()}
}

// Totals is what the namespace is charged for an allocation of the pod, by family.
func (p *Pod) Totals(a device.Allocation) (map[string]ledger.Charge, error) {
	r, err := p.Placement.Classes.Reserved(a, 0)
	if err != nil {
		return nil, err
	}
	return r.Charges(), nil
}
