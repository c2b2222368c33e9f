// Package preempt answers kube-scheduler's Preempt. kube-scheduler picks victims for what it sees, which is not memory
// and cores of devices; this package vetoes nodes where the pod's devices would not fit even then.
package preempt

import (
	"context"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
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
	r, victims, err := p.parse(args)
	if err != nil {
		return nil, err
	}
	if !r.Devices {
		return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: victims}, nil
	}
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	var scratch placement.Scratch
	shut, ahead := p.Gate.Refusals(), p.Nominated.Ahead(r)
	for node, given := range victims {
		if len(given.Pods) == 0 {
			continue
		}
		gone := quotasWithout{p.Book, []string{r.UID}} // it may be assumed on a node
		for _, v := range given.Pods {
			gone.uids = append(gone.uids, v.UID)
		}
		v := ahead.View(&scratch, p.Book.Node(node).Without(gone.uids...))
		over := nodefit.CheckQuota(r, gone)
		_, refusal := nodefit.Fit(&scratch, r, v, shut[node], gone)
		if !over.Refused() && !refusal.Refused() {
			result.NodeNameToMetaVictims[node] = given
		}
	}
	return result, nil
}

// quotasWithout are a namespace's quotas as they would be without pods of these UIDs.
type quotasWithout struct {
	book Book
	uids []string
}

// CheckQuota implements nodefit.Quotas.
func (q quotasWithout) CheckQuota(namespace, _ string, s ledger.Scope, charges map[string]ledger.Charge) error {
	return q.book.CheckQuotaWithout(namespace, q.uids, s, charges)
}
