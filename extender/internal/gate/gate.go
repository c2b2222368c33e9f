// Package gate lets pods through to a node's kubelet one at a time.
//
// Kubelet's Allocate call does not say which pod it is for. So on each node at most one pod of ours may be between
// "bound" and "devices allocated". Pods whose allocations are identical, position by position, count as one, because a
// swap between them changes nothing. (One that opted in to NUMA refit counts by itself: its allocation may change while
// it is inside.)
//
// Who is inside is a fact about pods: bound, recorded, not terminal, not gone, and kubelet has not reported on it yet
// (status.startTime is set only after admission or rejection). Only such facts open the gate: there is no timer to
// expire and no lock to leak.
package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Limits beyond which a node takes no new pods (design, section 10).
const (
	LongShut  = 30 * time.Second
	DeepQueue = 8
)

// RoomObserver has pods that Filter refused tried again.
type RoomObserver interface {
	// NodeFreed is called, without locks held, when a node's gate has room for more pods than before.
	NodeFreed(node string)
}

// Gate holds the gates of all nodes. Its methods may be called from any goroutine.
type Gate struct {
	now  func() time.Time
	room RoomObserver

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
	Alone      bool              // its allocation may yet change, so it is identical to nothing
}

type occupant struct {
	Pod
	since time.Time
	shown bool // the watch shows it on the node; else its binding is on its way
}

type waiter struct {
	Pod
	admitted chan struct{}
}

// New returns open gates.
func New(now func() time.Time, room RoomObserver) *Gate {
	return &Gate{now: now, room: room, nodes: map[string]*queue{}, where: map[string]string{}}
}

// Enter waits for the pod's turn and takes it inside; it stays there until Leave or Abandon. A pod that the watch has
// shown bound meanwhile stays where that is. The error names the pod inside and wraps the context's cause.
func (g *Gate) Enter(ctx context.Context, node string, p Pod) error {
	w := &waiter{Pod: p, admitted: make(chan struct{})}
	g.mu.Lock()
	q := g.node(node)
	q.waiting = append(q.waiting, w)
	g.admit(node, q)
	g.tidy(node, q)
	g.mu.Unlock()

	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	var err error
	g.update(func() (string, bool) {
		return node, g.change(node, func(q *queue) {
			i := slices.Index(q.waiting, w)
			if i < 0 {
				return // admitted at the last moment
			}
			q.waiting = slices.Delete(q.waiting, i, i+1)
			err = fmt.Errorf("GPU gate of node %s: %s: %w", node, q.describe(i, g.now()), context.Cause(ctx))
		})
	})
	return err
}

// Observe takes what the watch shows of a pod, and its allocation, nil when that cannot be read. The pod is inside
// while it is bound, recorded, not terminal, and kubelet has not reported on it.
func (g *Gate) Observe(pod *corev1.Pod, a device.Allocation) {
	if !kube.InGate(pod) {
		g.Leave(string(pod.UID))
		return
	}
	g.Inside(pod.Spec.NodeName, Pod{
		UID: string(pod.UID), Name: pod.Namespace + "/" + pod.Name, Allocation: a, Alone: kube.Movable(pod),
	})
}

// Inside records that a pod is on a node and kubelet has not reported on it. Repeating it changes nothing.
func (g *Gate) Inside(node string, p Pod) {
	g.update(func() (other string, room bool) {
		other, inside := g.where[p.UID]
		if inside && other != node { // it was about to be bound there when somebody else bound it here
			room = g.remove(other, p.UID)
		}
		g.take(node, g.node(node), occupant{Pod: p, shown: true})
		return other, room
	})
}

// Leave records that a pod is no longer inside: kubelet reported on it, or it is terminal or gone.
func (g *Gate) Leave(uid string) { g.leave(uid, true) }

// Abandon undoes Enter: the binding that entered does not bind the pod. A pod that the watch has shown bound stays
// inside.
func (g *Gate) Abandon(uid string) { g.leave(uid, false) }

func (g *Gate) leave(uid string, shown bool) {
	g.update(func() (node string, room bool) {
		node, inside := g.where[uid]
		return node, inside && (shown || !g.occupant(node, uid).shown) && g.remove(node, uid)
	})
}

// update runs a change under the lock, and reports the room that it made on a node.
func (g *Gate) update(change func() (node string, room bool)) {
	g.mu.Lock()
	node, room := change()
	g.mu.Unlock()
	if room {
		g.room.NodeFreed(node)
	}
}

// occupant returns a pod that is inside a node's gate.
func (g *Gate) occupant(node, uid string) *occupant {
	q := g.nodes[node]
	return &q.inside[slices.IndexFunc(q.inside, func(o occupant) bool { return o.UID == uid })]
}

// remove takes a pod out and reports, as change does, whether there is more room.
func (g *Gate) remove(node, uid string) (room bool) {
	return g.change(node, func(q *queue) {
		delete(g.where, uid)
		q.inside = slices.DeleteFunc(q.inside, func(o occupant) bool { return o.UID == uid })
	})
}

// change removes something from a node's gate, admits the pods whose turn it then is, and reports whether there is more
// room than before.
func (g *Gate) change(node string, remove func(*queue)) (room bool) {
	q := g.node(node)
	before := q.room(g.now())
	remove(q)
	g.admit(node, q)
	g.tidy(node, q)
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

// tidy drops an open gate.
func (g *Gate) tidy(node string, q *queue) {
	if len(q.inside) == 0 && len(q.waiting) == 0 {
		delete(g.nodes, node)
	}
}

// admit takes inside, from the front of the queue, every pod that counts as one with all inside.
func (g *Gate) admit(node string, q *queue) {
	for len(q.waiting) > 0 {
		w := q.waiting[0]
		for _, o := range q.inside {
			if o.UID != w.UID && (o.Alone || w.Alone || !Identical(o.Allocation, w.Allocation)) {
				return
			}
		}
		q.waiting = q.waiting[1:]
		g.take(node, q, occupant{Pod: w.Pod})
		close(w.admitted)
	}
}

// take records an occupant. What the watch shows replaces what a binding is about to write, never the other way round,
// and a pod is inside one gate only.
func (g *Gate) take(node string, q *queue, o occupant) {
	at, inside := g.where[o.UID]
	switch {
	case !inside:
		o.since = g.now()
		q.inside = append(q.inside, o)
		g.where[o.UID] = node
	case at == node:
		if known := g.occupant(node, o.UID); o.shown || !known.shown {
			known.Pod, known.shown = o.Pod, o.shown
		}
	}
}

// Identical reports whether two allocations are the same, position by position. A nil allocation is identical to
// nothing: what is not known may differ.
func Identical(a, b device.Allocation) bool { return a != nil && b != nil && a.Equal(b) }
