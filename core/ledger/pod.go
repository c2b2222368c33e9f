// Package ledger keeps the books: it charges each device and each namespace exactly what the remaining phases of
// their pods can use.
//
// A Book takes facts (a pod in its current state, a node with its devices, a quota) and applies the difference to
// what it knew. The same fact again changes nothing, so resyncs, relists, duplicates and restarts need no care.
// Each call returns a Delta, which says what became more or less.
//
// The book stores one immutable Entry per pod: its facts and what they charge. A node's View and a Namespace are sums
// of entries. They are immutable too and replaced whole, so readers never wait and never see half a change. Writers
// take turns.
//
// A pod passes through the book like this:
//
//	Assume     its devices are decided and charged before the API server confirms them
//	Unassume   the Binding was refused: the assumption ends
//	Observe    the pod was seen; once it has a node, that replaces the assumption, and each
//	           later call lowers or raises the charge as phases end or run again
//	Remove     the pod is gone
//
// No timer ends anything.
//
// Read before: package placement. Read next: package wire, the form in which the facts are written down.
package ledger

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Scope is what a ResourceQuota's scopes can tell pods apart by.
type Scope struct {
	Terminating            bool // spec.activeDeadlineSeconds is set
	BestEffort             bool
	CrossNamespaceAffinity bool
	PriorityClass          string
}

// Pod is the state of one pod, as far as the books need it.
type Pod struct {
	UID, Namespace, Name string
	// Version is the object's resourceVersion, 0 when unknown. It grows with every write (KEP-5504), so the book can
	// tell that an observation is late.
	Version    uint64
	Node       string // spec.nodeName; a pod without one is charged nothing
	Classes    phase.Pod
	Allocation device.Allocation // by position; nil for a pod without devices
	// First is the index of the first phase that remains, phase.None when the pod has ended.
	First int
	Scope Scope
	// Unreadable says why the allocation of a bound, live pod cannot be read. Until it can be read or the pod is gone,
	// its node takes no new pods with devices, and its namespace none that a quota limits.
	Unreadable string
}

// same reports whether two observations of a pod say the same. Its UID, namespace and name never change,
// and Version grows with every write, whatever was written.
func (p *Pod) same(q *Pod) bool {
	return p.First == q.First && p.Node == q.Node && p.Scope == q.Scope && p.Unreadable == q.Unreadable &&
		slices.Equal(p.Classes, q.Classes) && p.Allocation.Equal(q.Allocation)
}

// String names the pod for messages.
func (p *Pod) String() string { return "pod " + p.Namespace + "/" + p.Name }

// Node is the state of one node.
type Node struct {
	Name    string
	Devices []device.Device // sorted by family, then index
	// Unreadable says why the inventory cannot be read; such a node takes no new pods.
	Unreadable string
}
