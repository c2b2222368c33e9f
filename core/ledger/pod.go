// Package ledger keeps the books: at every moment each device and each namespace is charged exactly
// what the remaining phases of its pods can use.
//
// A Book is told facts (this pod now looks like this; this node has these devices) and applies the
// difference. Being told the same fact twice changes nothing, so resyncs, relists, duplicates and
// restarts need no care by the caller.
//
// What is stored is one immutable Entry per pod, holding its facts and what they charge. A node's View and
// a Namespace are sums of entries, changed by the difference between a pod's old entry and its new one;
// they are immutable too and replaced whole, so a reader never waits and never sees half a change.
// Writers take turns.
//
// A pod's life in the book: Assume when its devices are decided; Observe whenever it is seen, which
// replaces the assumption once it has a node and lowers or raises its charge as its phases go by; Remove
// when it is gone. Unassume ends an assumption that was refused. No timer ends anything.
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

// Pod is the absolute truth about one pod, as far as the books need it.
type Pod struct {
	UID, Namespace, Name string
	// Version is the object's resourceVersion, 0 when unknown. Versions of one resource grow with time
	// (KEP-5504), so an observation older than what the book holds is known to be late.
	Version    uint64
	Node       string // spec.nodeName; a pod without one is charged nothing
	Classes    phase.Pod
	Allocation device.Allocation // by position; nil for a pod without devices
	// First is the index of the first phase that remains, phase.None when the pod has ended.
	First int
	Scope Scope
	// Unreadable says why the allocation of a bound, live pod cannot be read. Its node takes no new
	// pods with devices, and its namespace none that a quota limits, until it is readable or gone.
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

// Node is the absolute truth about one node.
type Node struct {
	Name    string
	Devices []device.Device // sorted by family, then index
	// Unreadable says why the inventory cannot be read; such a node takes no new pods.
	Unreadable string
}
