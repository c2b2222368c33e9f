// Package audit compares an extender's books with a recomputation from the objects that the API server has.
//
// Both change meanwhile. So a line of the books, of a device or a namespace, is right once it was found equal.
// One that differs is read again, and is drift only when it differed each time and, at the end, none of its pods
// changed and the books had seen them all.
package audit

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
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
	Leads      bool   `json:"leads"`  // its scheduler holds the Lease, so it binds
	Generation uint64 `json:"generation"`
	Seen       uint64 `json:"seen"`    // the resourceVersion up to which the books know pods
	Release    string `json:"release"` // the policy of pods that name none
	Compared   Counts `json:"compared"`
	Drift      []Line `json:"drift"`
	// Unsettled is what differed each time because it changed each time or because the books are behind.
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
	Books      *report.Amount `json:"books,omitempty"`
	Recomputed *report.Amount `json:"recomputed,omitempty"`
	Differs    []string       `json:"differs,omitempty"` // what else differs, in words
	Pods       []Cause        `json:"pods,omitempty"`    // that make the difference, by namespace and name
}

// Cause is a pod of which books and recomputation say different things.
type Cause struct {
	UID        string         `json:"uid"`
	Namespace  string         `json:"namespace"`
	Name       string         `json:"name"`
	Books      *report.Amount `json:"books,omitempty"` // of this device, or for this namespace
	Recomputed *report.Amount `json:"recomputed,omitempty"`
	Why        string         `json:"why"`
	Unsettled  string         `json:"unsettled,omitempty"` // why that may be no drift
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
	return slices.ContainsFunc(r.Books, func(b Books) bool { return len(b.Drift) > 0 })
}

// Unsettled reports whether any books could not be judged whole.
func (r *Report) Unsettled() bool {
	return slices.ContainsFunc(r.Books, func(b Books) bool { return len(b.Unsettled) > 0 })
}

// plus adds without the checks of device.Amount: books that drift may hold anything.
func plus(a, b device.Amount) device.Amount {
	return device.Amount(report.Amount(a).Plus(report.Amount(b)))
}

// minus may be negative.
func minus(a, b device.Amount) device.Amount {
	return device.Amount(report.Amount(a).Minus(report.Amount(b)))
}
