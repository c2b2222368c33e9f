package why

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// holders returns the pods among entries that hold something, by what they hold, most first.
func (q *query) holders(entries []*ledger.Entry, held func(phase.Reservation) device.Usage) []report.Holder {
	holders := []report.Holder{}
	for _, e := range entries {
		if h, ok := q.holder(e, held); ok {
			holders = append(holders, h)
		}
	}
	sortHolders(holders)
	return holders
}

// sortHolders sorts by what they hold, most first.
func sortHolders(holders []report.Holder) {
	slices.SortStableFunc(holders, func(x, y report.Holder) int {
		return cmp.Or(
			cmp.Compare(y.Holds.MemoryMiB, x.Holds.MemoryMiB), cmp.Compare(y.Holds.Cores, x.Holds.Cores),
			cmp.Compare(y.Holds.Slots, x.Holds.Slots), cmp.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
}

// holderOf returns the pod of an entry as a holder, without steps.
func (q *query) holderOf(e *ledger.Entry, holds report.Amount) report.Holder {
	return report.Holder{
		Namespace: e.Namespace, Name: e.Name, Holds: holds, Kept: q.Cluster.Kept(e), Phase: q.phaseOf(e),
		Release: q.release(e).String(), Steps: []report.Step{},
	}
}

func (q *query) holder(e *ledger.Entry, held func(phase.Reservation) device.Usage) (report.Holder, bool) {
	now := held(e.Reserved)
	if now == (device.Usage{}) {
		return report.Holder{}, false
	}
	h := q.holderOf(e, report.Amount(now.Amount))
	h.Exclusive = now.Exclusive
	last := now
	for _, k := range q.next(e) {
		reserved, err := e.Classes.Reserved(e.Allocation, k)
		if err != nil {
			break // e would have a problem and hold nothing
		}
		then := held(reserved)
		if then == last {
			continue
		}
		if less := lost(last, then); less != (report.Amount{}) {
			h.Steps = append(h.Steps, report.Step{After: q.endOf(e, k), Then: report.Amount(then.Amount),
				Releases: less})
		}
		last = then
	}
	return h, true
}

// lost is what becomes free when what is held becomes less.
func lost(before, after device.Usage) report.Amount {
	return report.Amount(before.Amount).Minus(report.Amount(after.Amount))
}

// next returns the phases from which on a pod will hold what it holds, one after the other, by its policy.
func (q *query) next(e *ledger.Entry) []int {
	var phases []int
	if q.Cluster.Kept(e) {
		return nil // its init containers run once it has a node
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

// phaseOf names the phase that a pod is in.
func (q *query) phaseOf(e *ledger.Entry) string {
	pod := q.Cluster.Pod(e)
	if pod == nil {
		return ""
	}
	return report.PhaseName(&pod.Spec, e.Classes, e.Classes.Progress(kube.Status(pod)).Inits)
}

// endOf names the init container whose end makes k a pod's first phase.
func (q *query) endOf(e *ledger.Entry, k int) string {
	if pod := q.Cluster.Pod(e); pod != nil {
		return report.PhaseName(&pod.Spec, e.Classes, k-1)
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
