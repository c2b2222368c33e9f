// Package ledger keeps the books: at every moment each device and each namespace is charged exactly
// what the remaining phases of its pods can use.
//
// A Book is told facts (this pod now looks like this; this node has these devices) and applies the
// difference. Being told the same fact twice changes nothing, so resyncs, relists, duplicates and
// restarts need no care by the caller.
package ledger

import (
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
	Node                 string // spec.nodeName; a pod without one is charged nothing
	Classes              phase.Pod
	Allocation           device.Allocation // by position; nil for a pod without devices
	// First is the index of the first phase that remains, phase.None when the pod has ended.
	First int
	Scope Scope
	// Unreadable says why the allocation of a bound, live pod cannot be read. Its node takes no new
	// pods with devices until it is readable or gone.
	Unreadable string
}

// Dimension is what a quota limits.
type Dimension uint8

// The dimensions of a quota: MiB × devices and percent × devices.
const (
	Memory Dimension = iota
	Cores
)

// Limit is one line of a ResourceQuota, in MiB or percent.
type Limit struct {
	Resource  string // the quota's key, for messages
	Family    string // type word
	Dimension Dimension
	Max       int64
}

// Quota is one ResourceQuota. The tightest of all quotas in a namespace rules: each must hold.
type Quota struct {
	Namespace, Name string
	// Selects reports whether pods of a scope count; nil means all do.
	Selects func(Scope) bool
	Limits  []Limit
}

// Node is the absolute truth about one node.
type Node struct {
	Name    string
	Devices []device.Device // sorted by family, then index
	// Unreadable says why the inventory cannot be read; such a node takes no new pods.
	Unreadable string
}
