package requeue

import "github.com/phasegpu/phasegpu/core/ledger"

// Observe takes a change of the books. Where it released something, refused pods are tried again. The books must show
// the change already.
func (r *Refused) Observe(d ledger.Delta) {
	if !d.Released {
		return
	}
	namespace := d.Namespace
	if n := r.book.Namespace(namespace); n == nil || len(n.Quotas) == 0 {
		// Without a quota no pod waits for room in the namespace, unless its last quota was just removed.
		if d.Node != "" {
			namespace = ""
		}
	}
	r.Released(d.Node, namespace)
	if d.Left != "" {
		r.Released(d.Left, "")
	}
}
