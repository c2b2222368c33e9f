package timeline

import (
	"slices"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// releases is what the ends of phases, and of the pod, have given back or will.
func (t *facts) releases() []Release {
	releases := []Release{}
	before := t.classes.First(phase.Progress{}, t.release)
	for k := 1; k <= t.classes.Steady(); k++ {
		after := t.classes.First(phase.Progress{Inits: k}, t.release)
		r := Release{After: kube.Container(&t.pod.Spec, t.classes.InitPosition(k-1)).Name,
			Gives: t.given(before, after)}
		before = after
		if r.Done = t.state(k-1) == Over; r.Done {
			_, r.At = t.times(k - 1)
		}
		if len(r.Gives) > 0 {
			releases = append(releases, r)
		}
	}
	last := Release{Gives: t.given(before, phase.None)}
	if t.progress.Terminal {
		last.Done, last.At = true, t.end()
		// A pod that gave up in a phase gives back all that it still held in it.
		last.Gives = t.given(t.classes.First(phase.Progress{Inits: t.progress.Inits}, t.release), phase.None)
		releases = slices.DeleteFunc(releases, func(r Release) bool { return !r.Done })
	}
	if len(last.Gives) > 0 {
		releases = append(releases, last)
	}
	return releases
}

// given is what becomes free when the first remaining phase moves from before to after.
func (t *facts) given(before, after int) []Holding {
	was, is := t.reserved(before), t.reserved(after)
	given := []Holding{}
	for _, h := range was {
		memory := *h.MemoryMiB
		for _, left := range is {
			if left.UUID == h.UUID && left.Family == h.Family {
				h.Slots, h.Cores, memory = h.Slots-left.Slots, h.Cores-left.Cores, memory-*left.MemoryMiB
			}
		}
		if h.MemoryMiB = &memory; h.Slots > 0 || h.Cores > 0 || memory > 0 {
			given = append(given, h)
		}
	}
	return given
}

// end is when the last container ended.
func (t *facts) end() *time.Time {
	var last time.Time
	for i := range t.classes {
		if s := t.status.State(i); s.FinishedAt.After(last) {
			last = s.FinishedAt
		}
	}
	return moment(last)
}
