// Package requeue makes sure that a pod which was refused gets another try when there is room for it.
//
// kube-scheduler retries a pod that an extender refused when any cluster event arrives. Its watch may be
// ahead of ours: then the retry meets books that do not show the release yet, is refused, and the pod
// would wait for kube-scheduler's five-minute flush. So when our books release something, the pods that
// were refused and now fit are nudged: a patch of one annotation, which is an event for kube-scheduler.
package requeue

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

const (
	// Stale is how long after its last refusal a pod is forgotten. A pod that still waits is refused
	// again at least every five minutes; one that is not has been deleted or scheduled elsewhere.
	Stale = 15 * time.Minute
	// Most is how many pods are remembered. One more is not woken, and waits for the flush.
	Most = 50_000
	// MostText bounds the bytes of the device selectors of all remembered pods that have more than Short of
	// them: annotations are their authors' to fill, up to 256 KiB each. A pod beyond it waits for the flush.
	MostText, Short = 32 << 20, 1 << 10
	// Claim is how long a nudged pod may take to come back before others are tried on its room: it may be
	// that kube-scheduler itself finds no node for it now.
	Claim = 5 * time.Second
	// Tries is how many placements a pass may try, a fraction of a second's work. Pods of one shape share
	// theirs, so only very many shapes come to it; what is left over waits for the next release or the flush.
	Tries = 1 << 18
	// Pause is between two passes: on a busy cluster what was released meanwhile is seen to in one.
	Pause = 20 * time.Millisecond
)

// Book is what waking reads of the ledger.
type Book interface {
	Node(name string) *ledger.View
	Pod(uid string) *ledger.Entry
	Namespace(name string) *ledger.Namespace
	CheckQuota(namespace, uid string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Nominated are the pods that kube-scheduler has nominated (package nominated).
type Nominated interface {
	Has(uid string) bool
	From(priority int32) nominated.Claims
}

// Refused remembers refused pods. Its methods may be called from any goroutine.
type Refused struct {
	book      Book
	nominated Nominated
	room      func(node string) int     // how many more pods may queue at a node's gate
	nudge     func(*podrequest.Request) // must not block
	now       func() time.Time
	after     func(time.Duration, func())
	log       *zap.Logger

	mu     sync.Mutex
	pods   map[string]*refused // by UID
	text   int                 // bytes of long selectors in pods
	claims map[string]*claim   // by UID: nudged pods, until it is known what became of them
	nodes  names
	dirty  release // what was released since the last pass
	// While a Filter reads the books, what is released is noted, for the pod that it may refuse.
	open   int
	missed []release // one node or namespace each
	wake   chan struct{}
}

type refused struct {
	pod   *podrequest.Request
	since time.Time // of the first refusal in a row
	last  time.Time
	nodes set // that refused it
}

// claim is a nudged pod and the room that it was nudged for: others are passed over for it.
type claim struct {
	*refused
	node  string
	short bool // its namespace, too, had no room for all
}

// release is what became less charged.
type release struct{ nodes, namespaces map[string]bool }

// New remembers nothing yet. nudge is called for each pod that now fits; it must not block.
func New(book Book, nominated Nominated, room func(node string) int, nudge func(*podrequest.Request), now func() time.Time, log *zap.Logger) *Refused {
	return &Refused{
		book: book, nominated: nominated, room: room, nudge: nudge, now: now, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }, log: log,
		pods: map[string]*refused{}, claims: map[string]*claim{}, wake: make(chan struct{}, 1),
	}
}

// FilterStarts marks the moment before a Filter reads the ledger.
func (r *Refused) FilterStarts() (mark int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	return len(r.missed)
}

// FilterEnds takes what a Filter decided: nodes are those that refused the pod, nil when one took it. What was
// released since FilterStarts counts as released after the refusal.
func (r *Refused) FilterEnds(mark int, p *podrequest.Request, nodes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if nodes == nil {
		r.drop(p.UID)
	} else {
		r.remember(p, nodes)
		for _, what := range r.missed[mark:] {
			r.release(what)
		}
		r.unclaimed(p.UID)
	}
	r.open--
	if r.open == 0 {
		r.missed = nil // nobody has a mark in it
	}
}

func (r *Refused) remember(p *podrequest.Request, nodes []string) {
	now := r.now()
	since := now
	if known := r.pods[p.UID]; known != nil {
		since = known.since
		r.drop(p.UID)
	}
	if !r.has(p) {
		r.forgetStale()
		if !r.has(p) {
			return
		}
	}
	if len(r.pods) == 0 && len(r.nodes.names) > 2*len(nodes) {
		r.nodes = names{} // nobody refers to the numbers, so names of nodes long gone can go
	}
	r.text += long(p)
	r.pods[p.UID] = &refused{pod: p, since: since, last: now, nodes: r.nodes.set(nodes)}
}

// has reports whether there is space for one more pod.
func (r *Refused) has(p *podrequest.Request) bool {
	return len(r.pods) < Most && (long(p) == 0 || r.text+long(p) <= MostText)
}

// long is what a pod counts towards MostText.
func long(p *podrequest.Request) int {
	if p.SelectorBytes <= Short {
		return 0
	}
	return p.SelectorBytes
}

func (r *Refused) drop(uid string) {
	if p := r.pods[uid]; p != nil {
		r.text -= long(p.pod)
		delete(r.pods, uid)
	}
}

// Forget drops a pod that is bound or gone.
func (r *Refused) Forget(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(uid)
	r.unclaimed(uid) // the books tell what it took
}

// Unclaimed tells that a nudged pod does not come back: others are tried on the room that it was nudged for.
func (r *Refused) Unclaimed(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unclaimed(uid)
}

func (r *Refused) unclaimed(uid string) {
	c := r.claims[uid]
	if c == nil {
		return
	}
	delete(r.claims, uid)
	var what release
	what.add(c.node, "")
	if c.short {
		what.add("", c.pod.Namespace)
	}
	r.release(what)
}

// lapse ends a claim that took too long, unless the pod has been back and nudged anew meanwhile.
func (r *Refused) lapse(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[c.pod.UID] == c {
		r.unclaimed(c.pod.UID)
	}
}

// Released tells that there may be room on a node or in a namespace; either may be "". The books must
// show it already.
func (r *Refused) Released(node, namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var what release
	what.add(node, namespace)
	if r.open > 0 {
		r.missed = append(r.missed, what)
	}
	r.release(what)
}

func (r *Refused) release(what release) {
	if len(r.pods) == 0 {
		return
	}
	for node := range what.nodes {
		r.dirty.add(node, "")
	}
	for namespace := range what.namespaces {
		r.dirty.add("", namespace)
	}
	select {
	case r.wake <- struct{}{}:
	default: // a pass is due already
	}
}

func (w *release) add(node, namespace string) {
	if node != "" {
		if w.nodes == nil {
			w.nodes = map[string]bool{}
		}
		w.nodes[node] = true
	}
	if namespace != "" {
		if w.namespaces == nil {
			w.namespaces = map[string]bool{}
		}
		w.namespaces[namespace] = true
	}
}

// Waiting returns how many refused pods are remembered.
func (r *Refused) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pods)
}

// Run nudges until the context ends.
func (r *Refused) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			r.pass()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(Pause):
		}
	}
}

func (r *Refused) forgetStale() {
	horizon := r.now().Add(-Stale)
	for uid, p := range r.pods {
		if p.last.Before(horizon) {
			r.drop(uid)
		}
	}
}
