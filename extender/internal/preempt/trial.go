package preempt

import (
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// trial is a pod that is tried on a node as it would be without others.
type trial struct {
	book    Book
	scratch *placement.Scratch
	pod     *podrequest.Pod
	node    string
	asked   *extenderv1.MetaVictims // whom kube-scheduler would evict
	given   []string                // their UIDs, and the pod's own, which can be assumed on a node
	view    *ledger.View            // without given; nil for a node that the books do not know
	claims  []nominated.Claim       // what pods that come before this one were promised there
	over    bool                    // quotas have no room for what the pod is charged wherever it goes, even without given
}

// trials makes the trial of a pod on a node from which kube-scheduler would evict these victims.
type trials func(node string, asked *extenderv1.MetaVictims) *trial

func (p *Preempt) trials(s *placement.Scratch, pod *podrequest.Pod) trials {
	before := p.Nominated.Before(pod)
	return func(node string, asked *extenderv1.MetaVictims) *trial {
		t := &trial{book: p.Book, scratch: s, pod: pod, node: node, asked: asked, given: []string{pod.UID}}
		for _, v := range asked.Pods {
			t.given = append(t.given, v.UID)
		}
		t.view = p.Book.Node(node).Without(t.given...)
		t.claims = before.Of(s, t.view)
		t.over = pod.Settled && !t.affords(pod.Charges)
		return t
	}
}

// fits reports whether the pod fits on the node without the given victims and these pods, and into its namespace's
// quotas without the given victims: a quota is no room of a node, so nobody else is evicted for it.
func (t *trial) fits(gone ...string) bool {
	if t.over {
		return false
	}
	allocation, refusal := t.pod.Place(t.scratch, nominated.Beside(t.view.Without(gone...), t.claims))
	if refusal.Reason != "" || t.pod.Settled {
		return refusal.Reason == ""
	}
	charges, err := t.pod.Totals(allocation) // a percentage: the device decides
	return err == nil && t.affords(charges)
}

// affords reports whether the namespace's quotas have room for charges without the given victims.
func (t *trial) affords(charges map[string]ledger.Charge) bool {
	return t.book.CheckQuotaWithout(t.pod.Namespace, t.given, t.pod.Ledger.Scope, charges) == nil
}

// everybody lists the UIDs of all who hold something of the node.
func (t *trial) everybody() []string {
	if t.view == nil {
		return nil
	}
	all := make([]string, len(t.view.Pods))
	for i, e := range t.view.Pods {
		all[i] = e.UID
	}
	return all
}
