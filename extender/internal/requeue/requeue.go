// Package requeue gives refused pods another try when there is room for them.
//
// kube-scheduler retries a pod that an extender refused when any cluster event arrives. Its watch may be ahead of ours:
// then the retry reads a ledger that does not show the release yet, is refused, and the pod would wait for
// kube-scheduler's five-minute flush. So when the ledger releases something, the refused pods that now fit are nudged:
// a patch of one annotation, which is an event for kube-scheduler.
package requeue

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

const (
	// Stale is how long after its last refusal a pod is removed. A pod that still waits is refused again at least every
	// five minutes; one that does not has been deleted or bound.
	Stale = 15 * time.Minute
	// MaxPods is how many pods are remembered. Further ones wait for kube-scheduler's flush.
	MaxPods = 50_000
	// MaxSelectorBytes bounds the device selectors of all remembered pods that have more than ShortSelectors bytes of
	// them: annotations are their authors' to fill, up to 256 KiB each. Pods beyond it wait for the flush.
	MaxSelectorBytes, ShortSelectors = 32 << 20, 1 << 10
	// HoldRoom is for how long a nudged pod's room is held before other pods are tried on it: kube-scheduler itself may
	// have no node for the pod now.
	HoldRoom = 5 * time.Second
	// MaxTries is how many placements a pass may try, a fraction of a second's work. Pods of one shape share theirs, so
	// only very many shapes come to it; the others wait for the next release or the flush.
	MaxTries = 1 << 18
	// Pause is the least time between two passes.
	Pause = 20 * time.Millisecond
)

// Book is what a pass reads of the ledger.
type Book interface {
	nodefit.Quotas
	Node(name string) *ledger.View
	Pod(uid string) *ledger.Entry
	Namespace(name string) *ledger.Namespace
}

// Gates tells how many more pods may queue at a node's gate.
type Gates interface {
	Room(node string) int
}

// Nominated are the pods that kube-scheduler has nominated (package nominated).
type Nominated interface {
	Has(uid string) bool
	From(priority int32) nominated.Ahead
}

// Nudges has kube-scheduler try a pod again. It must not block.
type Nudges interface {
	Nudge(*podrequest.Request)
}

// Metrics counts nudges by result.
type Metrics interface {
	Nudged(result string)
}

// Queue remembers refused pods. Its methods may be called from any goroutine.
type Queue struct {
	book    Book
	metrics Metrics
	now     func() time.Time
	after   func(time.Duration, func())
	log     *zap.Logger

	mu            sync.Mutex
	refused       map[string]*refused // by UID
	selectorBytes int                 // of the refused pods with long selectors
	nudged        map[string]*nudged  // by UID, until it is known what became of the pod
	nodes         numbers
	freed         freed   // since the last pass
	filters       int     // that read the ledger now
	meanwhile     []freed // while Filters read the ledger, each a node or a namespace
	due           chan struct{}
}

// refused is a pod that Filter refused everywhere.
type refused struct {
	*podrequest.Request
	since time.Time // of the first refusal in a row
	last  time.Time
	nodes set // that refused it
}

// nudged is a pod that was nudged and the room that is held for it.
type nudged struct {
	*refused
	node      string
	overQuota bool // other pods of its namespace were not nudged because the quota has no room for all
}

// freed is where something was released.
type freed struct{ nodes, namespaces map[string]bool }

// New returns an empty queue. Run requeues.
func New(book Book, metrics Metrics, now func() time.Time, log *zap.Logger) *Queue {
	return &Queue{
		book: book, metrics: metrics, now: now, log: log,
		after:   func(d time.Duration, f func()) { time.AfterFunc(d, f) },
		refused: map[string]*refused{}, nudged: map[string]*nudged{}, due: make(chan struct{}, 1),
	}
}

// Run requeues until the context ends.
func (q *Queue) Run(ctx context.Context, gates Gates, nominated Nominated, nudges Nudges) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.due:
			q.pass(gates, nominated, nudges)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(Pause):
		}
	}
}

// FilterStarts marks the moment before a Filter reads the ledger.
func (q *Queue) FilterStarts() (mark int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filters++
	return len(q.meanwhile)
}

// FilterEnds takes what a Filter decided: nodes are those that refused the pod, nil when it fits somewhere. What was
// released since FilterStarts counts as released after the refusal.
func (q *Queue) FilterEnds(mark int, r *podrequest.Request, nodes []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if nodes == nil {
		q.drop(r.UID)
	} else {
		q.remember(r, nodes)
		for _, f := range q.meanwhile[mark:] {
			q.requeue(f)
		}
		q.giveUpRoom(r.UID)
	}
	q.filters--
	if q.filters == 0 {
		q.meanwhile = nil // no Filter has a mark in it
	}
}

func (q *Queue) remember(r *podrequest.Request, nodes []string) {
	now := q.now()
	since := now
	if known := q.refused[r.UID]; known != nil {
		since = known.since
		q.drop(r.UID)
	}
	if q.full(r) {
		q.dropStale()
		if q.full(r) {
			return
		}
	}
	if len(q.refused) == 0 && len(q.nodes.names) > 2*len(nodes) {
		q.nodes = numbers{} // no pod refers to it now, so names of nodes long gone can go
	}
	q.selectorBytes += long(r)
	q.refused[r.UID] = &refused{Request: r, since: since, last: now, nodes: q.nodes.set(nodes)}
}

// full reports whether there is no space for one more pod.
func (q *Queue) full(r *podrequest.Request) bool {
	return len(q.refused) >= MaxPods || long(r) > 0 && q.selectorBytes+long(r) > MaxSelectorBytes
}

// long is what a pod counts towards MaxSelectorBytes.
func long(r *podrequest.Request) int {
	if r.SelectorBytes <= ShortSelectors {
		return 0
	}
	return r.SelectorBytes
}

func (q *Queue) drop(uid string) {
	if p := q.refused[uid]; p != nil {
		q.selectorBytes -= long(p.Request)
		delete(q.refused, uid)
	}
}

func (q *Queue) dropStale() {
	horizon := q.now().Add(-Stale)
	for uid, p := range q.refused {
		if p.last.Before(horizon) {
			q.drop(uid)
		}
	}
}

// Remove removes a pod that is bound or gone.
func (q *Queue) Remove(uid string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(uid)
	q.giveUpRoom(uid) // the ledger shows what it took
}

// NudgeDone takes the result of a nudge. The room of a pod that does not come back is no longer held.
func (q *Queue) NudgeDone(uid, result string) {
	q.metrics.Nudged(result)
	if result == resultGone || result == resultRefused {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.giveUpRoom(uid)
	}
}

// giveUpRoom has other pods tried on the room that is held for a nudged pod.
func (q *Queue) giveUpRoom(uid string) {
	n := q.nudged[uid]
	if n == nil {
		return
	}
	delete(q.nudged, uid)
	var f freed
	f.add(n.node, "")
	if n.overQuota {
		f.add("", n.Namespace)
	}
	q.requeue(f)
}

// lapse gives up the room of a pod that takes too long, unless it has been nudged again meanwhile.
func (q *Queue) lapse(n *nudged) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.nudged[n.UID] == n {
		q.giveUpRoom(n.UID)
	}
}

// Waiting returns how many refused pods are remembered.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.refused)
}
