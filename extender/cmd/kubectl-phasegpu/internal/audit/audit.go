// Package audit compares an extender's books with a recomputation from the objects that the API server has.
//
// Both change while one looks. So a line of the books, a device or a namespace say, is right when it was once
// found equal; one that differs is looked at again, and is drift only when it differed each time and, at the
// end, nothing that it is made of changed and the books had seen all of that.
package audit

import (
	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// Report is the JSON document.
type Report struct {
	Books []Books `json:"books"` // one for each extender, the leading one first
	// Notes is what else there is to say of the cluster. It is no drift.
	Notes []Note `json:"notes"`
}

// Books is what came of comparing one extender's books.
type Books struct {
	Source     string `json:"source"` // the extender's pod, a URL or a file
	Leads      bool   `json:"leads"`  // the scheduler beside it is in office, so it binds
	Generation uint64 `json:"generation"`
	Seen       uint64 `json:"seen"`    // the resourceVersion up to which the books know pods
	Release    string `json:"release"` // the policy of pods that name none
	Compared   Counts `json:"compared"`
	Drift      []Line `json:"drift"`
	// Unsettled is what differed each time, but because it changed each time or because the books are behind.
	Unsettled []Line `json:"unsettled"`
	// Assumed is booked for pods that the API server has without a node: their Binding is on its way. It is no
	// drift.
	Assumed []Assumed `json:"assumed"`
}

// Counts is how many of each were compared: what is in the books, at the API server, or in both.
type Counts struct {
	Nodes      int `json:"nodes"`
	Devices    int `json:"devices"`
	Pods       int `json:"pods"` // that are charged anything
	Namespaces int `json:"namespaces"`
	Quotas     int `json:"quotas"` // lines of ResourceQuotas
}

// Line is one line of the books that differs.
type Line struct {
	Kind      string `json:"kind"` // node, device, namespace or quota
	Node      string `json:"node,omitempty"`
	Device    string `json:"device,omitempty"` // UUID
	Namespace string `json:"namespace,omitempty"`
	Family    string `json:"family,omitempty"` // of a namespace's charge
	Quota     string `json:"quota,omitempty"`
	Resource  string `json:"resource,omitempty"` // the quota's key
	// What the books say and what a recomputation does, of a device and of a namespace (whose slots count
	// devices, and whose MiB and percent are times devices). Assumed pods are left out.
	Books      *ui.Amount `json:"books,omitempty"`
	Recomputed *ui.Amount `json:"recomputed,omitempty"`
	Differs    []string   `json:"differs,omitempty"` // what else differs, in words
	Pods       []Cause    `json:"pods,omitempty"`    // that make the difference, by namespace and name
}

// Cause is a pod of which books and recomputation say different things.
type Cause struct {
	UID        string     `json:"uid"`
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Books      *ui.Amount `json:"books,omitempty"` // of this device, or for this namespace
	Recomputed *ui.Amount `json:"recomputed,omitempty"`
	Why        string     `json:"why"`
	Unsettled  string     `json:"unsettled,omitempty"` // why that may be no drift
}

// Assumed is what is booked for a pod whose Binding is on its way.
type Assumed struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Node      string    `json:"node"`
	Devices   []ui.Held `json:"devices"`
}

// Note is something that an operator should know of an object.
type Note struct {
	Object string `json:"object"` // e.g. "Pod ml/train"
	Note   string `json:"note"`
}

// Drifts reports whether any books drift.
func (r *Report) Drifts() bool {
	for i := range r.Books {
		if len(r.Books[i].Drift) > 0 {
			return true
		}
	}
	return false
}

// Unsettled reports whether any books could not be judged whole.
func (r *Report) Unsettled() bool {
	for i := range r.Books {
		if len(r.Books[i].Unsettled) > 0 {
			return true
		}
	}
	return false
}

func plus(a, b device.Amount) device.Amount {
	return device.Amount{Slots: a.Slots + b.Slots, MemoryMiB: a.MemoryMiB + b.MemoryMiB, Cores: a.Cores + b.Cores}
}

// minus may be negative: books that drift say anything.
func minus(a, b device.Amount) device.Amount {
	return device.Amount{Slots: a.Slots - b.Slots, MemoryMiB: a.MemoryMiB - b.MemoryMiB, Cores: a.Cores - b.Cores}
}
