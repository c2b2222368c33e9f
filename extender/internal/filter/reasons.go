package filter

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Handful is how many reasons a Filter gives at most, whatever the number of nodes: kube-scheduler adds equal
// ones up and prints them all in one FailedScheduling event.
const Handful = 5

const (
	overQuota = "Exceeded quota"
	// others stands for the reasons that are left out.
	others = "Other GPU reasons (kubectl phasegpu why lists them)"
)

// Reasons lists what nodes can be refused for, as Count is told.
func Reasons() []string {
	return append(append(podrequest.Reasons(), gate.Reasons()...), overQuota)
}

// tally is how many nodes were refused for the same.
type tally struct {
	podrequest.Refusal
	nodes int
}

// kind is what is added up.
func (t *tally) kind() string { return cmp.Or(t.Kind, t.Reason) }

// add up refusals by kind. Of those with numbers in them, which may differ from node to node, the one that
// misses by least stays.
func add(refusals []podrequest.Refusal) []tally {
	var sum []tally
	for i := range refusals {
		r := &refusals[i]
		if r.Reason == "" {
			continue
		}
		kind := cmp.Or(r.Kind, r.Reason)
		at := slices.IndexFunc(sum, func(t tally) bool { return t.kind() == kind }) // there are few
		if at < 0 {
			sum = append(sum, tally{Refusal: *r, nodes: 1})
			continue
		}
		t := &sum[at]
		t.nodes++
		if cmp.Or(cmp.Compare(r.Misses, t.Misses), cmp.Compare(r.Reason, t.Reason)) < 0 {
			t.Refusal = *r
		}
	}
	return sum
}

// told returns the reasons that are given for a pod, by kind: all if they are a handful; else those that may pass before
// those that last, the more nodes the sooner, and one for the rest. What the pod itself excludes is told of all nodes alike.
func told(sum []tally, p *podrequest.Pod) map[string]string {
	slices.SortFunc(sum, func(a, b tally) int {
		switch {
		case a.Lasting != b.Lasting && b.Lasting:
			return -1
		case a.Lasting != b.Lasting:
			return 1
		}
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.Reason, b.Reason))
	})
	told := make(map[string]string, len(sum))
	for i, t := range sum {
		told[t.kind()] = t.Reason
		if len(sum) > Handful && i >= Handful-1 {
			told[t.kind()] = others
		}
	}
	if excluded := placement.NotSelected.String(); told[excluded] == excluded {
		told[excluded] += ": " + p.Selectors()
	}
	return told
}
