package filter

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Handful is how many reasons a Filter gives at most, whatever the number of nodes: kube-scheduler adds equal ones up
// and prints them all in one FailedScheduling event.
const Handful = 5

// others stands for the reasons that are left out.
const others = "Other GPU reasons (kubectl phasegpu why lists them)"

// Reasons lists what nodes can be refused for.
func Reasons() []string { return append(nodefit.Reasons(), gate.Reasons()...) }

// tally is how many nodes were refused for the same reason.
type tally struct {
	nodefit.Refusal
	nodes int
}

// addUp counts refusals by reason. Of those whose details differ from node to node, the one that misses by least stays.
func addUp(refusals []nodefit.Refusal) []tally {
	var sum []tally
	for i := range refusals {
		r := &refusals[i]
		if !r.Refused() {
			continue
		}
		at := slices.IndexFunc(sum, func(t tally) bool { return t.Reason == r.Reason }) // there are few
		if at < 0 {
			sum = append(sum, tally{Refusal: *r, nodes: 1})
			continue
		}
		t := &sum[at]
		t.nodes++
		if cmp.Or(cmp.Compare(r.Misses, t.Misses), cmp.Compare(r.Detail, t.Detail)) < 0 {
			t.Refusal = *r
		}
	}
	return sum
}

// sentences returns what is said for each reason: all of them if they are a handful; else those that may pass before
// those that last, those of most nodes first, and one sentence for the rest. What the pod's own selectors exclude is
// said with the selectors.
func sentences(sum []tally, r *podrequest.Request) map[string]string {
	slices.SortFunc(sum, func(a, b tally) int {
		switch {
		case a.Lasting == b.Lasting:
			return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.Reason, b.Reason))
		case b.Lasting:
			return -1
		}
		return 1
	})
	said := make(map[string]string, len(sum))
	for i := range sum {
		said[sum[i].Reason] = sum[i].String()
		if len(sum) > Handful && i >= Handful-1 {
			said[sum[i].Reason] = others
		}
	}
	if excluded := placement.NotSelected.String(); said[excluded] == excluded {
		said[excluded] += ": " + r.Selectors()
	}
	return said
}
