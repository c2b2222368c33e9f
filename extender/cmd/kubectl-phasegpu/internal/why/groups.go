package why

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Group has the nodes that refuse for one reason.
type Group struct {
	Reason  string   `json:"reason"`  // without numbers
	Passing bool     `json:"passing"` // it passes when others end or release, or when a gate opens
	Nodes   []string `json:"nodes"`   // those that come nearest first
	Nearest []Answer `json:"nearest"` // the first of them in detail
}

// Answer is the refusal of one node, with numbers.
type Answer struct {
	Node       string             `json:"node"`
	Sentence   string             `json:"sentence"`
	Containers []report.Container `json:"containers"` // that find too few devices
	// Holders hold the advertised resource of which there is too little, until they end.
	Holders []report.Holder `json:"holders"`
}

// groups collects refusals by reason.
func (q *query) groups(refusals []fit.Refusal) []Group {
	var groups []Group
	at := map[string]int{}
	byReason := map[string][]fit.Refusal{}
	for _, r := range refusals {
		if _, known := at[r.Reason]; !known {
			at[r.Reason] = len(groups)
			groups = append(groups, Group{Reason: r.Reason, Passing: passes(&r), Nodes: []string{},
				Nearest: []Answer{}})
		}
		byReason[r.Reason] = append(byReason[r.Reason], r)
	}
	for i := range groups {
		g := &groups[i]
		same := byReason[g.Reason]
		slices.SortStableFunc(same, func(x, y fit.Refusal) int { return cmp.Compare(missing(&x), missing(&y)) })
		for k := range same {
			g.Nodes = append(g.Nodes, same[k].Node)
			if k < q.Details {
				g.Nearest = append(g.Nearest, q.answer(&same[k]))
			}
		}
	}
	slices.SortStableFunc(groups, func(x, y Group) int {
		switch {
		case x.Passing == y.Passing:
			return 0
		case x.Passing:
			return -1
		}
		return 1
	})
	return groups
}

// passes reports whether a refusal is no more than what others hold, or a gate.
func passes(r *fit.Refusal) bool {
	return slices.Contains(gate.Reasons(), r.Reason) || r.Count != nil && r.Count.Asked <= r.Count.Allocatable ||
		r.Devices != nil && !r.Devices.Reason.Unresolvable()
}

// missing is how many MiB the device lacks that comes nearest to take the container that finds too few.
func missing(r *fit.Refusal) int64 {
	if r.Devices == nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for i := range r.Devices.Containers {
		c := &r.Devices.Containers[i]
		if c.Reason == placement.Fits {
			continue
		}
		for j := range c.Devices {
			d := &c.Devices[j]
			if d.Reason != placement.NoMemory {
				continue
			}
			for _, k := range d.Phases {
				needed := d.Asked.MemoryMiB + k.Own.MemoryMiB + d.Held.MemoryMiB
				least = min(least, max(0, needed-d.Capacity.MemoryMiB))
			}
		}
	}
	return least
}

func (q *query) answer(r *fit.Refusal) Answer {
	pods := q.Cluster.View(r.Node).Pods
	a := Answer{Node: r.Node, Sentence: r.Sentence, Holders: []report.Holder{}}
	a.Containers = r.Containers(func(uuid string) []report.Holder { return q.holders(pods, onDevice(uuid)) })
	if r.Count != nil {
		a.Holders = q.counted(pods, r.Count.Resource)
	}
	return a
}

// counted returns who holds an advertised resource: by Kubernetes' own count, until they end.
func (q *query) counted(entries []*ledger.Entry, resource corev1.ResourceName) []report.Holder {
	holders := []report.Holder{}
	for _, e := range entries {
		pod := q.Cluster.Pod(e)
		if pod == nil {
			continue
		}
		if n := fit.Held(pod, resource); n > 0 {
			holders = append(holders, q.holderOf(e, report.Amount{Slots: n}))
		}
	}
	sortHolders(holders)
	return holders
}

func (q *query) container(position int) string { return kube.Container(&q.Pod.Spec, position).Name }
