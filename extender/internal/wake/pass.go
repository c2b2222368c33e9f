package wake

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/ask"
)

// pass nudges, in order of priority and then of waiting time, the pods that fit into what was released,
// each beside those nudged before it: a release that has room for one pod wakes one, not thousands.
func (r *Refused) pass() {
	r.mu.Lock()
	r.forgetStale()
	what := r.dirty
	r.dirty = release{}
	var waiting []*refused
	for _, p := range r.pods {
		waiting = append(waiting, p)
	}
	names := r.nodes.all()
	var released []int
	for node := range what.nodes {
		if id, ok := r.nodes.ids[node]; ok {
			released = append(released, id)
		}
	}
	r.mu.Unlock()

	slices.Sort(released)
	slices.SortFunc(waiting, func(a, b *refused) int {
		return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	t := trial{Refused: r, nodes: map[string]*ledger.View{}, room: map[string]int{}, no: map[attempt]bool{}, taken: map[scope]map[string]ledger.Charge{}, short: map[string]bool{}}
	chosen := map[*refused]string{} // the node that each would go to
	for _, p := range waiting {
		if node := t.fits(p, names, released, what.namespaces[p.pod.Namespace]); node != "" {
			chosen[p] = node
		}
	}
	for _, p := range waiting {
		if node, ok := chosen[p]; ok && r.claim(p, node, t.short[p.pod.Namespace]) {
			r.nudge(p.pod)
		}
	}
}

// claim takes a pod out of those that wait, unless it has been back meanwhile, and notes what others were
// passed over for: a node, and also its namespace if that has no room for all.
func (r *Refused) claim(p *refused, node string, short bool) bool {
	uid := p.pod.UID
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[uid] != p {
		return false
	}
	delete(r.pods, uid)
	var what release
	what.add(node, "")
	if short {
		what.add("", p.pod.Namespace)
	}
	r.claims[uid] = what
	r.after(Claim, func() { r.Unclaimed(uid) })
	return true
}

// trial is the books as they would be if the pods nudged so far had been placed.
type trial struct {
	*Refused
	scratch placement.Scratch
	nodes   map[string]*ledger.View // copies with Held of their own
	room    map[string]int
	no      map[attempt]bool // pods of the same shape need not be tried twice on a node
	taken   map[scope]map[string]ledger.Charge
	short   map[string]bool // namespaces whose quotas had no room for a pod
}

type attempt struct{ node, shape string }

// scope is where a quota is charged. Quotas may tell pods apart by more than the namespace.
type scope struct {
	namespace string
	ledger.Scope
}

// fits tries a pod on the released nodes that refused it, or on all that refused it if something was
// released in its namespace, and takes what it would hold. It returns the node, "" for none.
func (t *trial) fits(p *refused, names []string, released []int, all bool) (node string) {
	if p.pod.Settled && !t.quota(p.pod, p.pod.Charges) {
		return "" // on whatever node
	}
	if all {
		for id := range p.nodes.members {
			if t.place(p.pod, names[id]) {
				return names[id]
			}
		}
		return ""
	}
	for _, id := range released {
		if p.nodes.has(id) && t.place(p.pod, names[id]) {
			return names[id]
		}
	}
	return ""
}

func (t *trial) place(p *ask.Pod, node string) bool {
	if t.no[attempt{node, p.Shape}] {
		return false
	}
	v := t.view(node)
	a, refusal := p.Place(&t.scratch, v)
	if refusal.Reason != "" || t.room[node] <= 0 {
		t.no[attempt{node, p.Shape}] = true
		return false
	}
	charges := p.Charges // held to the quota already
	if !p.Settled {
		var err error
		if charges, err = p.Totals(a); err != nil || !t.quota(p, charges) {
			return false
		}
	}
	t.take(p, v, a, charges)
	return true
}

func (t *trial) view(node string) *ledger.View {
	if v, ok := t.nodes[node]; ok {
		return v
	}
	v := t.book.Node(node)
	if v != nil {
		mine := *v
		mine.Held = slices.Clone(v.Held)
		v = &mine
	}
	t.nodes[node], t.room[node] = v, t.Refused.room(node)
	return v
}

// quota checks the charges together with those of the pods nudged before in the same scope.
func (t *trial) quota(p *ask.Pod, charges map[string]ledger.Charge) bool {
	sum := map[string]ledger.Charge{}
	for family, c := range charges {
		total, err := c.Add(t.taken[scope{p.Namespace, p.Ledger.Scope}][family])
		if err != nil {
			return false
		}
		sum[family] = total
	}
	if t.book.CheckQuota(p.Namespace, p.UID, p.Ledger.Scope, sum) != nil {
		t.short[p.Namespace] = true
		return false
	}
	return true
}

func (t *trial) take(p *ask.Pod, v *ledger.View, a device.Allocation, charges map[string]ledger.Charge) {
	t.room[v.Name]--
	s := scope{p.Namespace, p.Ledger.Scope}
	if t.taken[s] == nil {
		t.taken[s] = map[string]ledger.Charge{}
	}
	for family, c := range charges {
		if sum, err := t.taken[s][family].Add(c); err == nil { // quota has added it up before
			t.taken[s][family] = sum
		}
	}
	reserved, err := p.Placement.Classes.Reserved(a, 0)
	if err != nil {
		return // Place never returns such an allocation
	}
	for _, h := range reserved.Devices {
		i := slices.IndexFunc(v.Devices, func(d device.Device) bool { return d.UUID == h.UUID })
		if sum, err := v.Held[i].Add(h.Amount); err == nil {
			v.Held[i].Amount = sum
			v.Held[i].Exclusive = v.Held[i].Exclusive || h.Exclusive
		}
	}
}
