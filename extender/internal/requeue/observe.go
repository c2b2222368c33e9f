package requeue

import (
	"github.com/phasegpu/phasegpu/core/ledger"
)

// Observe takes a change of the ledger, which must show it already. Where it released something, refused pods are tried
// again.
func (q *Queue) Observe(d ledger.Delta) {
	if !d.Released {
		return
	}
	namespace := d.Namespace
	if n := q.book.Namespace(namespace); n == nil || len(n.Quotas) == 0 {
		// Without a quota no pod waits for room in the namespace, unless its last quota was just removed.
		if d.Node != "" {
			namespace = ""
		}
	}
	q.free(d.Node, namespace)
	if d.Left != "" {
		q.free(d.Left, "")
	}
}

// NodeFreed takes that a node's gate has room, or that what was kept there for a nominated pod no longer is.
func (q *Queue) NodeFreed(node string) { q.free(node, "") }

// free takes that there may be room on a node and in a namespace; either may be "".
func (q *Queue) free(node, namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var f freed
	f.add(node, namespace)
	if q.filters > 0 {
		q.meanwhile = append(q.meanwhile, f)
	}
	q.requeue(f)
}

// requeue has the next pass look at what was freed.
func (q *Queue) requeue(f freed) {
	if len(q.refused) == 0 {
		return
	}
	for node := range f.nodes {
		q.freed.add(node, "")
	}
	for namespace := range f.namespaces {
		q.freed.add("", namespace)
	}
	select {
	case q.due <- struct{}{}:
	default: // a pass is due already
	}
}

func (f *freed) add(node, namespace string) {
	if node != "" {
		if f.nodes == nil {
			f.nodes = map[string]bool{}
		}
		f.nodes[node] = true
	}
	if namespace != "" {
		if f.namespaces == nil {
			f.namespaces = map[string]bool{}
		}
		f.namespaces[namespace] = true
	}
}
