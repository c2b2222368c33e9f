package requeue

import (
	"cmp"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// pass nudges, in order of priority and then of waiting time, the pods that fit into what was released,
// each beside those nudged before it, in this pass or another, of which it is not known yet whether they have
// taken their room: a release that has room for one pod wakes one, not thousands, and so do a thousand
// releases of a little each. It returns how many placements it tried.
func (r *Refused) pass() (tries int) {
	r.mu.Lock()
	r.forgetStale()
	what := r.dirty
	r.dirty = release{}
	waiting := slices.Collect(maps.Values(r.pods))
	claims := slices.Collect(maps.Values(r.claims))
	t := trial{Refused: r, names: r.nodes.all(), nodes: map[string]*ledger.View{}, room: map[string]int{}, kept: map[int32]nominated.Claims{}, kinds: map[kind]*memo{}, taken: map[scope]map[string]ledger.Charge{}, short: map[string]bool{}}
	released := set{}
	for node := range what.nodes {
		if id, ok := r.nodes.ids[node]; ok {
			released = released.with(id)
		}
	}
	r.mu.Unlock()

	slices.SortFunc(claims, func(a, b *claim) int { return cmp.Compare(a.pod.UID, b.pod.UID) })
	for _, c := range claims {
		t.keep(c)
	}
	slices.SortFunc(waiting, func(a, b *refused) int {
		return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	chosen := map[*refused]string{} // the node that each would go to
	for _, p := range waiting {
		on := released
		if what.namespaces[p.pod.Namespace] {
			on = nil
		}
		if node := t.fits(p, on); node != "" {
			chosen[p] = node
		}
	}
	for _, p := range waiting {
		if node, ok := chosen[p]; ok && r.claim(p, node, t.short[p.pod.Namespace]) {
			r.nudge(p.pod)
		}
	}
	return t.tries
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
	r.drop(uid)
	c := &claim{refused: p, node: node, short: short}
	r.claims[uid] = c
	r.after(Claim, func() { r.lapse(c) })
	return true
}

// trial is the books as they would be if the pods nudged so far had been placed.
type trial struct {
	*Refused
	names   []string // of nodes, by number
	scratch placement.Scratch
	nodes   map[string]*ledger.View // copies with Held of their own
	room    map[string]int
	tries   int
	kept    map[int32]nominated.Claims // by priority, from which on
	kinds   map[kind]*memo
	takes   int
	taken   map[scope]map[string]ledger.Charge
	short   map[string]bool // namespaces whose quotas had no room for a pod
}

// scope is where a quota is charged. Quotas may tell pods apart by more than the namespace.
type scope struct {
	namespace string
	ledger.Scope
}

// claims returns the claims of those who come before a pod. What is kept for one of them that was nudged counts twice
// until it is bound, of which its watch tells.
func (t *trial) claims(p *podrequest.Request) nominated.Claims {
	kept, known := t.kept[p.Priority]
	if !known {
		kept = t.nominated.From(p.Priority)
		t.kept[p.Priority] = kept
	}
	return kept.Before(p)
}

// before is the same for pods before whom the same nominated ones come.
type before struct {
	priority int32
	uid      string // of a pod that is nominated itself, or was when it was refused
}

func (t *trial) beforeWhom(p *podrequest.Request) before {
	at := before{priority: p.Priority}
	if p.Nominated != "" || t.nominated.Has(p.UID) {
		at.uid = p.UID
	}
	return at
}

// kind is the same for pods that fit the same nodes and are charged to the same quotas.
type kind struct {
	scope
	shape string
	before
}

// memo is what is known of a kind of pods, so that not each of thousands needs be tried. Room only becomes less
// during a trial.
type memo struct {
	no      set  // nodes on which they do not fit
	over    bool // their quotas have no room
	checked int  // takes when they had, and one more
}

func scopeOf(p *podrequest.Request) scope { return scope{p.Namespace, p.Ledger.Scope} }

// keep takes for a nudged pod the room that it was nudged for.
func (t *trial) keep(c *claim) {
	defer t.survive(c.pod)
	if t.book.Pod(c.pod.UID) == nil && !t.place(c.pod, c.node) { // the books have it already, or its room is gone
		t.fits(c.refused, nil)
	}
}

// survive, deferred, has a panic over one pod cost that pod its nudge, and not the others theirs or the process its
// life. It is not tried again before it has been refused again.
func (t *trial) survive(p *podrequest.Request) {
	if cause := recover(); cause != nil {
		t.log.Error("panic: the pod waits for kube-scheduler's flush", zap.Stringer("pod", p), zap.Any("panic", cause), zap.Stack("stack"))
		t.Forget(p.UID)
	}
}

// fits tries a pod on those of the nodes that refused it, or on all that did if nodes is nil, and takes what it
// would hold. It returns the node, "" for none.
func (t *trial) fits(p *refused, nodes set) string {
	defer t.survive(p.pod)
	k := kind{scopeOf(p.pod), p.pod.Shape, t.beforeWhom(p.pod)}
	m := t.kinds[k]
	if m == nil {
		m = &memo{}
		t.kinds[k] = m
	}
	if p.pod.ChargesKnown && !m.over && m.checked != t.takes+1 {
		over := nodefit.CheckQuota(p.pod, t)
		m.over, m.checked = over.Refused(), t.takes+1
	}
	if m.over {
		return "" // on whatever node
	}
	for id := range p.nodes.pick(nodes, m.no) {
		if t.tries >= Tries {
			return ""
		}
		if t.place(p.pod, t.names[id]) {
			return t.names[id]
		}
		m.no = m.no.with(id)
	}
	return ""
}

// place has a pod take its place on a node, if it fits there.
func (t *trial) place(p *podrequest.Request, node string) bool {
	t.tries++
	v := t.view(node)
	// What is kept is decided by the books alone, as in Filter.
	v = nominated.Beside(v, t.claims(p).Of(&t.scratch, t.book.Node(node)))
	gate := ""
	if t.room[node] <= 0 {
		gate = "full"
	}
	if _, refusal := nodefit.Fit(&t.scratch, p, v, gate, t); refusal.Refused() {
		return false
	}
	t.take(p, node)
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

// CheckQuota implements nodefit.Quotas: it adds what the pods nudged before are charged in the same scope.
func (t *trial) CheckQuota(namespace, uid string, s ledger.Scope, charges map[string]ledger.Charge) error {
	sum := map[string]ledger.Charge{}
	for family, c := range charges {
		total, err := c.Add(t.taken[scope{namespace, s}][family])
		if err != nil {
			return err
		}
		sum[family] = total
	}
	err := t.book.CheckQuota(namespace, uid, s, sum)
	if err != nil {
		t.short[namespace] = true
	}
	return err
}

// take has a pod that fits on a node hold its place there, and its charges.
func (t *trial) take(p *podrequest.Request, node string) {
	reserved, err := p.Placement.Classes.Reserved(t.scratch.Allocation(), 0)
	if err != nil {
		return // an allocation that fits has none
	}
	t.takes++
	t.room[node]--
	s := scopeOf(p)
	if t.taken[s] == nil {
		t.taken[s] = map[string]ledger.Charge{}
	}
	for _, total := range reserved.Totals {
		if sum, err := t.taken[s][total.Family].Add(total.Charge); err == nil { // CheckQuota has added it up before
			t.taken[s][total.Family] = sum
		}
	}
	v := t.nodes[node]
	for _, h := range reserved.Devices {
		i := slices.IndexFunc(v.Devices, func(d device.Device) bool { return d.UUID == h.UUID })
		if sum, err := v.Held[i].Add(h.Amount); err == nil {
			v.Held[i] = device.Usage{Amount: sum, Exclusive: v.Held[i].Exclusive || h.Exclusive}
		}
	}
}
