package requeue

import (
	"cmp"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// pass is one look at the refused pods. It computes with the ledger as it would be if the pods nudged so far, in this
// pass or an earlier one, had been placed: a release that has room for one pod nudges one, not thousands, and so do a
// thousand releases of a little each.
type pass struct {
	*Queue
	gates     Gates
	nominated Nominated
	names     []string // of nodes, by number
	scratch   placement.Scratch
	tries     int

	nodes  map[string]*ledger.View   // with what the pods placed in this pass reserve
	room   map[string]int            // of gates, by node
	ahead  map[int32]nominated.Ahead // by priority
	groups map[group]*findings

	placed    int // pods in this pass
	charged   map[scope]map[string]ledger.Charge
	overQuota map[string]bool // namespaces whose quota had no room for a pod
}

// scope is where a quota is charged: quotas may select pods by more than the namespace.
type scope struct {
	namespace string
	ledger.Scope
}

// group is the same for pods that fit the same nodes and are charged to the same quotas.
type group struct {
	scope
	shape    string
	priority int32
	uid      string // of a pod that is nominated itself, or was when it was refused, "" for others
}

// findings are what is known of a group, so that not each of thousands of pods is tried. Room only shrinks in a pass.
type findings struct {
	not       set  // nodes on which they do not fit
	overQuota bool // their quotas have no room
	checked   int  // one more than the pods that were placed when their quotas had room
}

// pass nudges the pods that fit into what was freed: highest priority first, then those that wait longest. It returns
// how many placements it tried.
func (q *Queue) pass(gates Gates, queued Nominated, nudges Nudges) (tries int) {
	p := pass{
		Queue: q, gates: gates, nominated: queued,
		nodes: map[string]*ledger.View{}, room: map[string]int{}, ahead: map[int32]nominated.Ahead{},
		groups: map[group]*findings{}, charged: map[scope]map[string]ledger.Charge{}, overQuota: map[string]bool{},
	}
	q.mu.Lock()
	q.dropStale()
	freedNow := q.freed
	q.freed = freed{}
	waiting, earlier := slices.Collect(maps.Values(q.refused)), slices.Collect(maps.Values(q.nudged))
	p.names = q.nodes.names
	nodes := set{}
	for node := range freedNow.nodes {
		if id, ok := q.nodes.ids[node]; ok {
			nodes = nodes.with(id)
		}
	}
	q.mu.Unlock()

	slices.SortFunc(earlier, func(a, b *nudged) int { return cmp.Compare(a.UID, b.UID) })
	for _, n := range earlier {
		p.holdRoom(n)
	}
	slices.SortFunc(waiting, func(a, b *refused) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.since.Compare(b.since), cmp.Compare(a.UID, b.UID))
	})
	chosen := map[*refused]string{} // by pod: its node
	for _, r := range waiting {
		on := nodes
		if freedNow.namespaces[r.Namespace] {
			on = nil
		}
		if node := p.findNode(r, on); node != "" {
			chosen[r] = node
		}
	}
	for _, r := range waiting {
		if node, ok := chosen[r]; ok && q.moveToNudged(r, node, p.overQuota[r.Namespace]) {
			nudges.Nudge(r.Request)
		}
	}
	return p.tries
}

// moveToNudged moves a pod from those that wait to those that are nudged, unless it has been back meanwhile.
func (q *Queue) moveToNudged(r *refused, node string, overQuota bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused[r.UID] != r {
		return false
	}
	q.drop(r.UID)
	n := &nudged{refused: r, node: node, overQuota: overQuota}
	q.nudged[r.UID] = n
	q.after(HoldRoom, func() { q.lapse(n) })
	return true
}

// holdRoom places a pod that was nudged earlier where it was nudged for, or elsewhere if that room is gone.
func (p *pass) holdRoom(n *nudged) {
	defer p.recoverPod(n.Request)
	if p.book.Pod(n.UID) == nil && !p.place(n.Request, n.node) { // else the ledger has it already
		p.findNode(n.refused, nil)
	}
}

// recoverPod, deferred, has a panic over a pod cost that pod its nudge, and not the process or other pods. The pod is
// tried again once it has been refused again.
func (p *pass) recoverPod(r *podrequest.Request) {
	if cause := recover(); cause != nil {
		p.log.Error("panic: the pod waits for kube-scheduler's flush",
			zap.Stringer("pod", r), zap.Any("panic", cause), zap.Stack("stack"))
		p.Remove(r.UID)
	}
}

// findNode places a pod on one of the nodes that refused it, of those in on unless that is nil, and returns the node,
// "" for none.
func (p *pass) findNode(r *refused, on set) string {
	defer p.recoverPod(r.Request)
	known := p.findings(r.Request)
	if r.ChargesKnown && !known.overQuota && known.checked != p.placed+1 {
		over := nodefit.CheckQuota(r.Request, p)
		known.overQuota, known.checked = over.Refused(), p.placed+1
	}
	if known.overQuota {
		return ""
	}
	for id := range r.nodes.members(on, known.not) {
		if p.tries >= MaxTries {
			return ""
		}
		if p.place(r.Request, p.names[id]) {
			return p.names[id]
		}
		known.not = known.not.with(id)
	}
	return ""
}

func (p *pass) findings(r *podrequest.Request) *findings {
	g := group{scope: scope{r.Namespace, r.Ledger.Scope}, shape: r.Shape, priority: r.Priority}
	if r.Nominated != "" || p.nominated.Has(r.UID) {
		g.uid = r.UID
	}
	known := p.groups[g]
	if known == nil {
		known = &findings{}
		p.groups[g] = known
	}
	return known
}

// place places a pod on a node, if it fits there.
func (p *pass) place(r *podrequest.Request, node string) bool {
	p.tries++
	v, known := p.nodes[node]
	if !known {
		v = p.book.Node(node)
		p.nodes[node], p.room[node] = v, p.gates.Room(node)
	}
	gate := ""
	if p.room[node] <= 0 {
		gate = "full"
	}
	// What nominated pods reserve is computed from the ledger alone, as in Filter. One that was nudged counts twice
	// until it is bound.
	kept := p.aheadOf(r).Entries(&p.scratch, p.book.Node(node))
	if _, refusal := nodefit.Fit(&p.scratch, r, v.With(kept...), gate, p); refusal.Refused() {
		return false
	}
	reserved, err := r.Placement.Classes.Reserved(p.scratch.Allocation(), 0)
	if err != nil {
		return false // an allocation that fits has none
	}
	p.placed++
	p.room[node]--
	nudged := &ledger.Entry{Pod: r.Ledger, Reserved: reserved}
	nudged.UID = "nudged " + r.UID // of its own: With replaces an entry of the same UID
	p.nodes[node] = v.With(nudged)
	s := scope{r.Namespace, r.Ledger.Scope}
	if p.charged[s] == nil {
		p.charged[s] = map[string]ledger.Charge{}
	}
	for family, charge := range reserved.Charges() {
		if sum, err := p.charged[s][family].Add(charge); err == nil { // CheckQuota has added it up before
			p.charged[s][family] = sum
		}
	}
	return true
}

// aheadOf returns the nominated pods ahead of a pod.
func (p *pass) aheadOf(r *podrequest.Request) nominated.Ahead {
	ahead, known := p.ahead[r.Priority]
	if !known {
		ahead = p.nominated.From(r.Priority)
		p.ahead[r.Priority] = ahead
	}
	return ahead.Of(r)
}

// CheckQuota implements nodefit.Quotas: it adds what the pods placed in this pass are charged in the same scope.
func (p *pass) CheckQuota(namespace, uid string, s ledger.Scope, charges map[string]ledger.Charge) error {
	sum := map[string]ledger.Charge{}
	for family, c := range charges {
		total, err := c.Add(p.charged[scope{namespace, s}][family])
		if err != nil {
			return err
		}
		sum[family] = total
	}
	err := p.book.CheckQuota(namespace, uid, s, sum)
	if err != nil {
		p.overQuota[namespace] = true
	}
	return err
}
