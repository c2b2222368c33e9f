package gate

import (
	"fmt"
	"time"
)

// State is a picture of one node's gate.
type State struct {
	Node    string
	Inside  []Pod
	Waiting int           // pods in the queue
	Since   time.Time     // when the pod that is longest inside came in; zero when none is
	Shut    time.Duration // since then
}

// States returns the gates with a pod inside or waiting, in no order.
func (g *Gate) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	states := make([]State, 0, len(g.nodes))
	for name, q := range g.nodes {
		s := State{Node: name, Waiting: len(q.waiting), Since: q.since(), Shut: q.shut(g.now())}
		for _, o := range q.inside {
			s.Inside = append(s.Inside, o.Pod)
		}
		states = append(states, s)
	}
	return states
}

// Why a node takes no new pods.
const (
	isShut = "GPU gate of the node is shut: kubelet does not report on a pod bound to it"
	isDeep = "GPU gate of the node has too many pods waiting"
)

// Reasons lists the sentences of Refusal.
func Reasons() []string { return []string{isShut, isDeep} }

// Refusal says why a node takes no new pods whose gate has been shut for a while and has pods waiting, "" when it takes
// some. The sentences are the same for every node.
func Refusal(shut time.Duration, waiting int) string {
	switch {
	case shut > LongShut:
		return isShut
	case waiting >= DeepQueue:
		return isDeep
	}
	return ""
}

// Refusals returns why nodes take no new pods.
func (g *Gate) Refusals() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	refusals := map[string]string{}
	for name, q := range g.nodes {
		if why := Refusal(q.shut(g.now()), len(q.waiting)); why != "" {
			refusals[name] = why
		}
	}
	return refusals
}

// Room returns how many more pods may queue at a node.
func (g *Gate) Room(node string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.nodes[node]; q != nil {
		return q.room(g.now())
	}
	return DeepQueue
}

func (q *queue) room(now time.Time) int {
	if Refusal(q.shut(now), len(q.waiting)) != "" {
		return 0
	}
	return DeepQueue - len(q.waiting)
}

// since is when the pod that is longest inside came in, zero when none is.
func (q *queue) since() time.Time {
	var first time.Time
	for _, o := range q.inside {
		if first.IsZero() || o.since.Before(first) {
			first = o.since
		}
	}
	return first
}

func (q *queue) shut(now time.Time) time.Duration {
	if len(q.inside) == 0 {
		return 0
	}
	return max(0, now.Sub(q.since()))
}

// describe says what the waiter at a place in the queue waits for.
func (q *queue) describe(ahead int, now time.Time) string {
	if len(q.inside) == 0 {
		return fmt.Sprintf("%d pods waiting before this one", ahead)
	}
	return fmt.Sprintf("pod %s was bound %s ago and kubelet has not reported on it, %d pods waiting before this one",
		q.inside[0].Name, q.shut(now).Round(time.Millisecond), ahead)
}
