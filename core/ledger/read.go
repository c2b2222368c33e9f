package ledger

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Node returns a node's view, nil when the book knows neither the node nor a pod there.
func (b *Book) Node(name string) *View { return b.nodes.load(name) }

// Pod returns what the book holds for a pod, nil when nothing.
func (b *Book) Pod(uid string) *Entry { return b.pods.load(uid) }

// Namespace returns a namespace, nil when it has neither pods nor quotas.
func (b *Book) Namespace(name string) *Namespace { return b.namespaces.load(name) }

// Nodes returns all nodes, sorted by name; each is consistent in itself. When Generation is the same
// before and after, they are consistent together: so for Pods and Namespaces.
func (b *Book) Nodes() []*View {
	return b.nodes.all(func(x, y *View) int { return cmp.Compare(x.Name, y.Name) })
}

// Pods returns all pods, bound and assumed, sorted by namespace, name and UID.
func (b *Book) Pods() []*Entry { return b.pods.all(comparePods) }

// Namespaces returns all namespaces with pods or quotas, sorted by name.
func (b *Book) Namespaces() []*Namespace {
	return b.namespaces.all(func(x, y *Namespace) int { return cmp.Compare(x.Name, y.Name) })
}

func comparePods(x, y *Entry) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
}

// Generation grows with every change of the book. Views that are read afterwards show at least the changes up to it.
func (b *Book) Generation() uint64 { return b.generation.Load() }

// CheckQuota reports whether a namespace's quotas have room for the charges (by family) of a pod of that scope,
// beside what pods other than the one of that UID are charged. It returns nil or a *QuotaError.
func (b *Book) CheckQuota(namespace, uid string, s Scope, charges map[string]Charge) error {
	return b.CheckQuotaWithout(namespace, []string{uid}, s, charges)
}

// CheckQuotaWithout is CheckQuota as if the pods of all these UIDs were gone. It waits for a writer only when the
// book holds one of them: its charge and the namespace's sum must be of one moment.
func (b *Book) CheckQuotaWithout(namespace string, uids []string, s Scope, charges map[string]Charge) error {
	if slices.ContainsFunc(uids, func(uid string) bool { return b.pods.load(uid) != nil }) {
		b.write.Lock()
		defer b.write.Unlock()
	} else {
		uids = nil
	}
	n := b.namespaces.load(namespace)
	if n == nil || len(n.Quotas) == 0 {
		return nil
	}
	for i, uid := range uids {
		e := b.pods.load(uid)
		if e == nil || e.Namespace != namespace || slices.Contains(uids[:i], uid) {
			continue
		}
		n = b.replaced(n, e, nil)
	}
	return n.check(s, func(family string) Charge { return charges[family] })
}

// Stats counts what should not happen, since the book was made.
type Stats struct {
	UnknownReleases uint64 // Remove of pods that the book held nothing for
	LateFacts       uint64 // observations older than what the book knew
	Broken          uint64 // sums that would have left their range: always 0 but for a bug in this package
}

type counters struct{ unknown, late, broken atomic.Uint64 }

// Stats returns the counters.
func (b *Book) Stats() Stats {
	return Stats{
		UnknownReleases: b.counters.unknown.Load(),
		LateFacts:       b.counters.late.Load(),
		Broken:          b.counters.broken.Load(),
	}
}
