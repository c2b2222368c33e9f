// Package nodefit decides whether a pod fits on a node, and how well: one rule for Filter, Prioritize, Preempt, Bind,
// the requeue pass and the commands that explain them. It computes from its arguments alone: no I/O, no clock, no
// locks.
package nodefit

import (
	"errors"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Kind is what refuses a pod.
type Kind uint8

// The kinds of refusals.
const (
	None    Kind = iota // nothing: the pod fits
	Node                // the ledger does not know the node, or cannot read it or a pod there
	Devices             // see placement.Explain
	Quota               // the namespace's
	Gate                // the node's
)

// Refusal is why a pod does not fit on a node. The zero Refusal is none.
type Refusal struct {
	Kind    Kind
	Lasting bool   // the node would not do however empty it became
	Reason  string // a canonical sentence: kube-scheduler adds up the nodes that share one
	Detail  string // the reason's numbers, "" where it has none
	Misses  int64  // by how much a quota is exceeded, in its unit
}

// Refused reports whether there is a refusal.
func (r *Refusal) Refused() bool { return r.Kind != None }

// String gives the reason with its numbers.
func (r *Refusal) String() string {
	if r.Detail == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Detail
}

// Canonical sentences, beside placement's and the gate's.
const (
	UnknownNode    = "GPU inventory not known yet"
	UnreadableNode = "Unreadable GPU inventory"
	UnreadablePod  = "Pods with an unreadable GPU allocation"
	OverQuota      = "Exceeded quota"
)

// Reasons lists the sentences of refusals, but for the gate's.
func Reasons() []string {
	all := []string{UnknownNode, UnreadableNode, UnreadablePod, OverQuota}
	for _, r := range placement.Reasons() {
		all = append(all, r.String())
	}
	return all
}

// Quotas says whether a namespace's quotas have room for a pod's charges, by family. *ledger.Book does.
type Quotas interface {
	CheckQuota(namespace, uid string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Fit rates a node for a pod, from 0 to 1 by the pod's node policy, or says why the pod does not fit there. Where it
// fits, s.Allocation() is its allocation.
//
// v is the node without the pod itself and with what nominated pods reserve; nil when the ledger does not know the
// node. gate says why the node's gate takes no more pods, "" when it takes some. The quotas are asked, unless nil,
// where only the devices decide what the pod is charged; CheckQuota does the rest once for all nodes.
func Fit(s *placement.Scratch, r *podrequest.Request, v *ledger.View, gate string, quotas Quotas) (float64, Refusal) {
	if v == nil || !v.Known {
		return 0, Refusal{Kind: Node, Reason: UnknownNode}
	}
	if v.Unreadable != "" {
		return 0, Refusal{Kind: Node, Reason: unreadable(v)}
	}
	score, reason := s.Rate(v.Placement(), r.Placement)
	if reason != placement.Fits {
		return 0, Refusal{Kind: Devices, Reason: reason.String(), Lasting: reason.Unresolvable()}
	}
	if quotas != nil && !r.ChargesKnown {
		charges, err := r.ChargesFor(s.Allocation())
		if err == nil {
			err = quotas.CheckQuota(r.Namespace, r.UID, r.Ledger.Scope, charges)
		}
		if err != nil {
			return 0, overQuota(err)
		}
	}
	if gate != "" { // last: a gate opens by itself
		return 0, Refusal{Kind: Gate, Reason: gate}
	}
	return score, Refusal{}
}

// CheckQuota refuses a pod on all nodes when quotas have no room for the least that it is charged.
func CheckQuota(r *podrequest.Request, quotas Quotas) Refusal {
	if err := quotas.CheckQuota(r.Namespace, r.UID, r.Ledger.Scope, r.Charges); err != nil {
		return overQuota(err)
	}
	return Refusal{}
}

func overQuota(err error) Refusal {
	r := Refusal{Kind: Quota, Reason: OverQuota, Detail: err.Error()}
	if e := (*ledger.QuotaError)(nil); errors.As(err, &e) {
		r.Misses = e.Asked - (e.Limit.Max - e.Used)
	}
	return r
}

func unreadable(v *ledger.View) string {
	for _, e := range v.Pods {
		if e.Problem != "" {
			return UnreadablePod
		}
	}
	return UnreadableNode
}
