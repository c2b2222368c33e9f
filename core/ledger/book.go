package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Errors that callers tell apart.
var (
	// ErrUnknown: the book holds nothing for the pod. It makes a pod that is removed twice visible.
	ErrUnknown = errors.New("the ledger holds nothing for the pod")
	// ErrBound: the pod was observed on a node, so nothing is left to decide.
	ErrBound = errors.New("the pod is bound already")
	// ErrNode: the node takes no new pods.
	ErrNode = errors.New("the node takes no new pods")
)

// Book is the ledger. Its methods may be called from any goroutine. Writers take turns; reads never
// wait for them.
type Book struct {
	write      sync.Mutex // held while the book is changed
	pods       index[Entry]
	nodes      index[View]
	namespaces index[Namespace]
	listed     uint64 // version of the newest list given to Replace; under write
	generation atomic.Uint64
	counters   counters
}

// New returns an empty book.
func New() *Book { return &Book{} }

// Delta is what a call changed. Callers use it to requeue pods that wait for room.
type Delta struct {
	Node      string
	Left      string // the node on which the pod was charged before, "" when it did not move
	Namespace string
	Changed   bool // the books differ from before
	Released  bool // a charge fell, or a node or quota may have room that it had not
	Raised    bool // a charge rose, or a node or quota may have lost room
}

// Observe takes the state of a pod and applies the difference in one step. A pod with a node replaces its assumption.
// A pod without one changes nothing, because the watch may be behind and no pod leaves its node; but when it has ended,
// its assumption ends. An observation with an older Version than the last is late and changes nothing.
func (b *Book) Observe(p Pod) Delta {
	b.write.Lock()
	defer b.write.Unlock()
	return b.observe(&p)
}

func (b *Book) observe(p *Pod) Delta {
	s := b.pods.slot(p.UID)
	before := s.current()
	if p.Node == "" {
		if before != nil && before.Assumed && p.First == phase.None {
			return b.change(s, before, nil, 0)
		}
		return Delta{}
	}
	observed := before != nil && !before.Assumed
	// A pod that had a node when Replace's list was taken was in the list, or it is gone.
	late := !observed && p.Version <= b.listed || observed && p.Version < s.version
	if late && p.Version != 0 {
		b.counters.late.Add(1)
		return Delta{}
	}
	if observed && before.same(p) {
		s.version = p.Version
		return Delta{}
	}
	return b.change(s, before, b.entry(p, false, before), p.Version)
}

// Remove removes a pod that was deleted, bound or assumed, and subtracts what the book holds for it. When the book
// holds nothing it returns ErrUnknown and counts that in Stats.
func (b *Book) Remove(uid string) (Delta, error) {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.pods.slot(uid)
	if s == nil {
		b.counters.unknown.Add(1)
		return Delta{}, fmt.Errorf("release of pod %s: %w", uid, ErrUnknown)
	}
	return b.change(s, s.Load(), nil, 0), nil
}

// Replace takes a complete list of the pods that have a node, with the list's resourceVersion. It observes all of them,
// whatever their Version, and removes bound pods that are not listed; assumptions stay. Later, an observation of a pod
// that the book does not hold is late unless it is newer than the list. Callers make no other call about pods between
// the request for the list and Replace. It returns a Delta for each pod that changed the books.
func (b *Book) Replace(pods []Pod, version uint64) []Delta {
	b.write.Lock()
	defer b.write.Unlock()
	var deltas []Delta
	note := func(d Delta) {
		if d.Changed {
			deltas = append(deltas, d)
		}
	}
	b.listed = 0
	listed := make(map[string]bool, len(pods))
	for i := range pods {
		listed[pods[i].UID] = true
		if s := b.pods.slot(pods[i].UID); s != nil {
			s.version = 0
		}
		note(b.observe(&pods[i]))
	}
	for _, e := range b.pods.all(comparePods) {
		if !e.Assumed && !listed[e.UID] {
			note(b.change(b.pods.slot(e.UID), e, nil, 0))
		}
	}
	b.listed = version
	return deltas
}

// Assume decides on an allocation for a pod and charges it in one step, quota included, or does nothing. It calls place
// with the view of node p.Node without the pod; place returns the allocation. The book is locked meanwhile: place may
// read it and must not change it. p.Allocation is ignored.
//
// Assuming a pod again replaces its assumption, on the same node or another. An error changes nothing: an earlier
// assumption stays until Unassume, because its Binding may be on its way. Errors are what place returned, ErrNode,
// *QuotaError, and ErrBound when the pod was observed on a node.
func (b *Book) Assume(p Pod, place func(*View) (device.Allocation, error)) (device.Allocation, Delta, error) {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.pods.slot(p.UID)
	before := s.current()
	if before != nil && !before.Assumed {
		return nil, Delta{}, fmt.Errorf("%v on node %s: %w", &p, before.Node, ErrBound)
	}
	node := b.nodes.load(p.Node)
	if node == nil || !node.Known {
		return nil, Delta{}, fmt.Errorf("node %q is not known to the ledger: %w", p.Node, ErrNode)
	}
	node = node.Without(p.UID)
	if node.Unreadable != "" {
		return nil, Delta{}, fmt.Errorf("node %s: %w: %s", p.Node, ErrNode, node.Unreadable)
	}
	allocation, err := place(node)
	if err != nil {
		return nil, Delta{}, err
	}
	p.Allocation, p.Unreadable = allocation, ""
	after := b.entry(&p, true, before)
	if after.Problem != "" {
		return nil, Delta{}, fmt.Errorf("cannot be booked on node %s: %s", p.Node, after.Problem)
	}
	if n := b.namespaces.load(p.Namespace); n != nil {
		if before != nil && before.Namespace == p.Namespace {
			n = b.replaced(n, before, nil)
		}
		if err := n.check(p.Scope, after.total); err != nil {
			return nil, Delta{}, err // the caller knows which pod
		}
	}
	return after.Allocation, b.change(s, before, after, 0), nil
}

// Unassume ends an assumption, because its Binding was refused. A pod that was observed on a node stays.
func (b *Book) Unassume(uid string) Delta {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.pods.slot(uid)
	before := s.current()
	if before == nil || !before.Assumed {
		return Delta{}
	}
	return b.change(s, before, nil, 0)
}

// change replaces a pod's entry in its slot. before and the slot are nil for a new pod, after is nil for one that goes.
// When a pod moves, its new node is published first, so that no reader sees too little.
func (b *Book) change(s *slot[Entry], before, after *Entry, version uint64) Delta {
	d := Delta{Released: exceeds(before, after), Raised: exceeds(after, before)}
	d.Changed = d.Released || d.Raised
	generation := b.generation.Load() + 1
	if after != nil {
		d.Node, d.Namespace = after.Node, after.Namespace
		b.pods.store(after.UID, s, after).version = version
	} else {
		d.Node, d.Namespace = before.Node, before.Namespace
		b.pods.store(before.UID, s, nil)
	}
	if before != nil && after != nil && before.Node != after.Node {
		d.Left = before.Node
		b.onNode(after.Node, nil, after, generation)
		b.onNode(before.Node, before, nil, generation)
	} else {
		b.onNode(d.Node, before, after, generation)
	}
	b.inNamespace(d.Namespace, before, after)
	b.generation.Store(generation)
	return d
}

// onNode publishes a node's view with one entry in the place of another; either may be nil.
func (b *Book) onNode(name string, before, after *Entry, generation uint64) {
	s := b.nodes.slot(name)
	v := s.current()
	if v == nil {
		v = &View{Name: name}
	}
	b.publish(s, v.replaced(before, after), generation)
}

// publish makes a view the node's current one.
func (b *Book) publish(s *slot[View], v *View, generation uint64) {
	if !v.Known && len(v.Pods) == 0 {
		b.nodes.store(v.Name, s, nil)
		return
	}
	v.Generation = generation
	b.nodes.store(v.Name, s, v)
}

// inNamespace publishes a namespace with one entry in the place of another; either may be nil.
func (b *Book) inNamespace(name string, before, after *Entry) {
	s := b.namespaces.slot(name)
	old := s.current()
	if old == nil {
		old = &Namespace{Name: name}
	}
	b.publishNamespace(s, b.replaced(old, before, after))
}

// replaced returns a namespace with one entry in the place of another; either may be nil.
func (b *Book) replaced(n *Namespace, before, after *Entry) *Namespace {
	m, err := n.with(before, after)
	if err != nil {
		b.counters.broken.Add(1)
	}
	return m
}

func (b *Book) publishNamespace(s *slot[Namespace], n *Namespace) {
	if n.pods == 0 && len(n.Quotas) == 0 {
		b.namespaces.store(n.Name, s, nil)
		return
	}
	b.namespaces.store(n.Name, s, n)
}
