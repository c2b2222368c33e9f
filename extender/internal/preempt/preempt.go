// Package preempt answers kube-scheduler's Preempt. kube-scheduler picks victims for what it sees, which is not memory
// and cores of devices; this package vetoes nodes where the pod's devices would not fit even then.
package preempt

import (
	"context"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Book is what Preempt reads of the ledger.
type Book interface {
	Node(name string) *ledger.View
	CheckQuotaWithout(namespace string, uids []string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Gate returns the nodes whose gate takes no more pods, and why.
type Gate interface {
	Refusals() map[string]string
}

// Preempt answers Preempt.
type Preempt struct {
	Book      Book
	Gate      Gate
	Nominated *nominated.Set
	Defaults  podrequest.Defaults
}

// Preempt returns the nodes on which the pod fits, by Filter's rules, once the victims given for them are gone. A node
// without victims is left out: kube-scheduler takes an empty list for a mistake, and its next Filter finds the room.
// The error names what is malformed in the arguments.
func (p *Preempt) Preempt(
	_ context.Context, args *extenderv1.ExtenderPreemptionArgs,
) (*extenderv1.ExtenderPreemptionResult, error) {
	pod, victims, err := p.read(args)
	if err != nil {
		return nil, err
	}
	if !pod.Devices {
		return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: victims}, nil
	}
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	var scratch placement.Scratch
	shut, claims := p.Gate.Refusals(), p.Nominated.Before(pod)
	for node, given := range victims {
		if _, refused := shut[node]; refused || len(given.Pods) == 0 {
			continue
		}
		gone := []string{pod.UID} // it may be assumed on a node
		for _, v := range given.Pods {
			gone = append(gone, v.UID)
		}
		if p.fits(&scratch, pod, gone, claims.View(&scratch, p.Book.Node(node).Without(gone...))) {
			result.NodeNameToMetaVictims[node] = given
		}
	}
	return result, nil
}

// fits reports whether the pod fits on a node, and into its namespace's quotas once the pods that are gone are.
func (p *Preempt) fits(s *placement.Scratch, pod *podrequest.Pod, gone []string, v *ledger.View) bool {
	allocation, refusal := pod.Place(s, v)
	if refusal.Reason != "" {
		return false
	}
	charges := pod.Charges
	if !pod.Settled {
		var err error
		if charges, err = pod.Totals(allocation); err != nil {
			return false
		}
	}
	return p.Book.CheckQuotaWithout(pod.Namespace, gone, pod.Ledger.Scope, charges) == nil
}
