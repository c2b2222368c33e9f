// Package gate lets pods through to a node's kubelet one at a time.
//
// Kubelet's Allocate call does not say which pod it is for. So on each node at most one pod of ours may
// be between "bound" and "devices allocated"; pods whose allocations are identical, position by
// position, count as one, because a swap between them is no swap.
//
// Who is inside is a fact about pods: bound, recorded, not terminal, not gone, and kubelet has not
// reported on it yet (status.startTime is set only after admission or rejection). The gate is told
// facts and opens by nothing else: there is no timer to expire and no lock to leak.
package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
)

// Limits beyond which a node takes no new pods (design, section 10).
const (
	LongShut  = 30 * time.Second
	DeepQueue = 8
)

// Gate holds the gates of all nodes. Its methods may be called from any goroutine.
type Gate struct {
	now  func() time.Time
	room func(node string)

	mu    sync.Mutex
	nodes map[string]*queue // nodes with a pod inside or waiting
	where map[string]string // UID of a pod inside → node
}

// queue is one node's gate.
type queue struct {
	inside  []occupant
	waiting []*waiter // first in, first out
}

// Pod is what the gate needs to know of a pod.
type Pod struct {
	UID        string
	Name       string            // namespace/name, for messages
	Allocation device.Allocation // nil when it cannot be read: then it is identical to nothing
}

type occupant struct {
	Pod
	since time.Time
}

type waiter struct {
	Pod
	admitted chan struct{}
}

// New returns open gates. room is called, without locks held, when a gate has room for more pods than
// before: those that Filter turned away may come back.
func New(now func() time.Time, room func(node string)) *Gate {
	return &Gate{now: now, room: room, nodes: map[string]*queue{}, where: map[string]string{}}
}

// Enter waits for the pod's turn and takes it inside; it then stays there until Leave. The error says
// who stood before it, and wraps the context's cause.
func (g *Gate) Enter(ctx context.Context, node string, p Pod) error {
	w := &waiter{Pod: p, admitted: make(chan struct{})}
	g.mu.Lock()
	q := g.node(node)
	q.waiting = append(q.waiting, w)
	g.admit(node, q)
	g.mu.Unlock()

	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	var err error
	g.mu.Lock()
	room := g.change(node, func(q *queue) {
		i := slices.Index(q.waiting, w)
		if i < 0 {
			return // admitted at the last moment
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		err = fmt.Errorf("GPU gate of node %s: %s: %w", node, q.describe(i, g.now()), context.Cause(ctx))
	})
	g.mu.Unlock()
	if room {
		g.room(node)
	}
	return err
}

// Inside records that a pod is on a node and kubelet has not reported on it. Being told again changes
// nothing.
func (g *Gate) Inside(node string, p Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.take(node, g.node(node), p)
}

// Leave records that a pod is no longer inside: kubelet reported on it, it is terminal or gone, or it was
// refused by the API server.
func (g *Gate) Leave(uid string) {
	g.mu.Lock()
	node, inside := g.where[uid]
	room := inside && g.change(node, func(q *queue) {
		delete(g.where, uid)
		q.inside = slices.DeleteFunc(q.inside, func(o occupant) bool { return o.UID == uid })
	})
	g.mu.Unlock()
	if room {
		g.room(node)
	}
}

// change removes something from a node's gate, lets in whose turn it then is, and reports whether there
// is more room than before.
func (g *Gate) change(node string, remove func(*queue)) (room bool) {
	q := g.node(node)
	before := q.room(g.now())
	remove(q)
	g.admit(node, q)
	if len(q.inside) == 0 && len(q.waiting) == 0 {
		delete(g.nodes, node)
	}
	return q.room(g.now()) > before
}

func (g *Gate) node(name string) *queue {
	q := g.nodes[name]
	if q == nil {
		q = &queue{}
		g.nodes[name] = q
	}
	return q
}

// admit lets in, from the front, every pod that is identical to all inside.
func (g *Gate) admit(node string, q *queue) {
	for len(q.waiting) > 0 {
		w := q.waiting[0]
		for _, o := range q.inside {
			if o.UID != w.UID && !Identical(o.Allocation, w.Allocation) {
				return
			}
		}
		q.waiting = q.waiting[1:]
		g.take(node, q, w.Pod)
		close(w.admitted)
	}
}

// take records an occupant. What the API server holds replaces what was meant to be written.
func (g *Gate) take(node string, q *queue, p Pod) {
	for i := range q.inside {
		if q.inside[i].UID == p.UID {
			q.inside[i].Pod = p
			return
		}
	}
	q.inside = append(q.inside, occupant{Pod: p, since: g.now()})
	g.where[p.UID] = node
}

// Identical reports whether two allocations are the same, position by position.
func Identical(a, b device.Allocation) bool {
	return a != nil && b != nil && slices.EqualFunc(a, b, func(x, y []device.Share) bool { return slices.Equal(x, y) })
}
