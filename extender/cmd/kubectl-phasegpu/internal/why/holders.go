package why

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Holder is a pod that holds something of a device or of a quota.
type Holder struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Holds     ui.Amount `json:"holds"`               // of a quota: devices, MiB × devices and percent × devices
	Exclusive bool      `json:"exclusive,omitempty"` // it shares the device with nobody
	// Kept tells that it has no node yet: kube-scheduler has evicted others for it, and what it will hold is kept.
	Kept    bool   `json:"kept,omitempty"`
	Phase   string `json:"phase"`   // in which it is: an init container's name, or steady
	Release string `json:"release"` // its policy
	// Steps are how it will hold less, in order; what is left after the last it holds until it ends.
	Steps []Step `json:"steps"`
}

// Step is the end of an init container, after which its pod holds less.
type Step struct {
	After    string    `json:"after"` // the init container
	Then     ui.Amount `json:"then"`
	Releases ui.Amount `json:"releases"`
}

// holders returns the pods among entries that hold something, by what they hold, most first.
func (q *query) holders(entries []*ledger.Entry, of func(phase.Reservation) device.Usage) []Holder {
	holders := []Holder{}
	for _, e := range entries {
		if h, ok := q.holder(e, of); ok {
			holders = append(holders, h)
		}
	}
	slices.SortStableFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(y.Holds.MemoryMiB, x.Holds.MemoryMiB), cmp.Compare(y.Holds.Cores, x.Holds.Cores), cmp.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
	return holders
}

func (q *query) holder(e *ledger.Entry, of func(phase.Reservation) device.Usage) (Holder, bool) {
	now := of(e.Reserved)
	if now == (device.Usage{}) {
		return Holder{}, false
	}
	h := Holder{Namespace: e.Namespace, Name: e.Name, Holds: ui.Amount(now.Amount), Exclusive: now.Exclusive, Kept: q.Cluster.Kept(e), Phase: q.phaseOf(e), Release: q.release(e).String(), Steps: []Step{}}
	last := now
	for _, k := range q.next(e) {
		reserved, err := e.Classes.Reserved(e.Allocation, k)
		if err != nil {
			break // e would have a problem and hold nothing that can be told
		}
		then := of(reserved)
		if then == last {
			continue
		}
		if less, err := last.Sub(then.Amount); err == nil { // it never becomes more
			h.Steps = append(h.Steps, Step{After: q.endOf(e, k), Then: ui.Amount(then.Amount), Releases: ui.Amount(less)})
		}
		last = then
	}
	return h, true
}

// next returns the phases from which on a pod will hold what it holds, one after the other, by its policy.
func (q *query) next(e *ledger.Entry) []int {
	var phases []int
	if q.Cluster.Kept(e) {
		return nil // its init containers come when it has a node
	}
	for k := e.First + 1; k <= e.Classes.Steady() && e.First != phase.None; k++ {
		if r := q.release(e); r == phase.PerInit || r == phase.AllInits && k == e.Classes.Steady() {
			phases = append(phases, k)
		}
	}
	return phases
}

func (q *query) release(e *ledger.Entry) phase.Release {
	pod := q.Cluster.Pod(e)
	if pod == nil {
		return q.Release
	}
	release, _ := kube.Release(pod, q.Release) // of one that cannot be read it is hold
	return release
}

// endOf names the init container whose end makes k a pod's first phase.
func (q *query) endOf(e *ledger.Entry, k int) string { return q.name(e, e.Classes.InitPosition(k-1)) }

// phaseOf names the phase that a pod is in.
func (q *query) phaseOf(e *ledger.Entry) string {
	pod := q.Cluster.Pod(e)
	if pod == nil {
		return ""
	}
	if at := e.Classes.InitPosition(e.Classes.Progress(kube.Status(pod)).Inits); at >= 0 {
		return q.name(e, at)
	}
	return explain.SteadyName
}

func (q *query) name(e *ledger.Entry, position int) string {
	if pod := q.Cluster.Pod(e); pod != nil {
		if c := kube.Container(&pod.Spec, position); c != nil {
			return c.Name
		}
	}
	return ""
}

// onDevice picks what a reservation takes of a device.
func onDevice(uuid string) func(phase.Reservation) device.Usage {
	return func(r phase.Reservation) device.Usage {
		for _, h := range r.Devices {
			if h.UUID == uuid {
				return h.Usage
			}
		}
		return device.Usage{}
	}
}

// ofFamily picks what a reservation charges its namespace for a family.
func ofFamily(word string) func(phase.Reservation) device.Usage {
	return func(r phase.Reservation) device.Usage {
		for _, t := range r.Totals {
			if t.Family == word {
				return device.Usage{Amount: t.Amount()}
			}
		}
		return device.Usage{}
	}
}
