package preempt

import (
	"cmp"
	"slices"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/phase"
)

// choose returns whom to evict besides the given victims, so that the pod fits, and that none of them can be put
// back: only pods that are ending already if that is enough, else others. ok is false when nobody's end helps.
//
// It is tried on all devices together and on each alone, because pods in the way of each other on one device are
// fewer than the least important of all devices. Of what that gives the best is what kube-scheduler would choose
// between nodes: the fewest violations of budgets, then the lowest priority, then the fewest pods.
func (t *trial) choose(all []*victim) (picked []*victim, ok bool) {
	ending, staying := t.holders(all)
	if picked, ok = t.spare(nil, ending); ok {
		return picked, true
	}
	gone := uids(ending)
	best, ok := t.spare(gone, staying)
	for _, d := range t.view.Devices {
		there := slices.DeleteFunc(slices.Clone(staying), func(v *victim) bool {
			return !slices.ContainsFunc(v.entry.Reserved.Devices, func(h phase.Holding) bool { return h.UUID == d.UUID })
		})
		if picked, fits := t.spare(gone, there); fits && (!ok || worse(best, picked)) {
			best, ok = picked, true
		}
	}
	return best, ok
}

// spare returns those of the pods without whom, and without those who are gone, the pod fits: it begins with all and
// puts back whoever may stay, those whose eviction would violate a budget first, and the most important first.
func (t *trial) spare(gone []string, among []*victim) (picked []*victim, ok bool) {
	without := func(victims []*victim) []string { return append(slices.Clip(gone), uids(victims)...) }
	if !t.fits(without(among)...) {
		return nil, false
	}
	picked = among
	for _, violates := range []bool{true, false} {
		for _, v := range among {
			if v.violates != violates {
				continue
			}
			rest := slices.DeleteFunc(slices.Clone(picked), func(o *victim) bool { return o == v })
			if t.fits(without(rest)...) {
				picked = rest
			}
		}
	}
	return picked, true
}

// worse reports whether the second choice is better than the first. Both are sorted by importance.
func worse(a, b []*victim) bool {
	highest := func(victims []*victim) int64 {
		if len(victims) == 0 {
			return -1 << 40
		}
		return int64(victims[0].priority)
	}
	sum := func(victims []*victim) (n int64) {
		for _, v := range victims {
			n += int64(v.priority)
		}
		return n
	}
	return cmp.Or(cmp.Compare(violations(a), violations(b)), cmp.Compare(highest(a), highest(b)),
		cmp.Compare(len(a), len(b)), cmp.Compare(sum(a), sum(b))) > 0
}

// victims is the answer for a node: the given victims and those that were picked, the most important first, which is
// what kube-scheduler expects. all is everybody there who may be evicted.
func (t *trial) victims(all, picked []*victim) *extenderv1.MetaVictims {
	answer := &extenderv1.MetaVictims{}
	var known []string
	for _, v := range all {
		if slices.Contains(picked, v) || slices.Contains(t.given, v.uid) {
			answer.Pods = append(answer.Pods, &extenderv1.MetaPod{UID: v.uid})
			known = append(known, v.uid)
			if v.violates {
				answer.NumPDBViolations++
			}
		}
	}
	for _, v := range t.asked.Pods { // kube-scheduler has one that the API server has no more
		if !slices.Contains(known, v.UID) {
			answer.Pods = append(answer.Pods, v)
		}
	}
	return answer
}

func violations(victims []*victim) (n int) {
	for _, v := range victims {
		if v.violates {
			n++
		}
	}
	return n
}

// anew reports whether one of the pods is not ending already.
func anew(victims []*victim) bool {
	return slices.ContainsFunc(victims, func(v *victim) bool { return !v.ending })
}

func uids(victims []*victim) []string {
	all := make([]string, len(victims))
	for i, v := range victims {
		all[i] = v.uid
	}
	return all
}
