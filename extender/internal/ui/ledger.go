// Package ui shows the books: to programs as JSON, at /debug/ledger, and to people as a page, at /ui/.
package ui

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// Ledger is the page at /debug/ledger. `kubectl phasegpu audit` and the tests compare it with what they
// compute from the API server's objects, so its shape is stable: fields may be added.
//
// Lists are sorted: nodes and namespaces by name, devices as on the node (family, then index), pods by
// namespace, name and UID. Lists that are empty are left out.
type Ledger struct {
	Generation uint64 `json:"generation"` // grows with every change
	Consistent bool   `json:"consistent"` // all of the page is of that generation
	// Seen is the resourceVersion up to which the books know what happened to bound pods with devices: what
	// differs from the API server and is older is drift, what is newer is on its way.
	Seen uint64 `json:"seen"`
	// Release is the release policy of pods that name none.
	Release    string      `json:"release"`
	Nodes      []Node      `json:"nodes,omitempty"`
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Gates      []Gate      `json:"gates,omitempty"` // sorted by node; open ones are left out
}

// Node is one node's book.
type Node struct {
	Name       string   `json:"name"`
	Known      bool     `json:"known"`                // false: pods are charged there, but there is no such node
	Unreadable string   `json:"unreadable,omitempty"` // why it takes no new pods
	Devices    []Device `json:"devices,omitempty"`
	// Missing is what pods hold of devices that the node does not list, sorted by UUID.
	Missing []Missing `json:"missing,omitempty"`
	Pods    []Pod     `json:"pods,omitempty"`
}

// Amount is slots, MiB and percent of one device's compute.
type Amount struct {
	Slots     int64 `json:"slots"`
	MemoryMiB int64 `json:"memoryMiB"`
	Cores     int64 `json:"cores"`
}

// Device is what a device has and what its pods' remaining phases can use of it; reserved exceeds
// capacity after containers ran again and found their memory taken.
type Device struct {
	UUID      string `json:"uuid"`
	Family    string `json:"family"`
	Index     int    `json:"index"`
	Capacity  Amount `json:"capacity"`
	Reserved  Amount `json:"reserved"`
	Exclusive bool   `json:"exclusive,omitempty"` // a holder shares it with nobody
	Healthy   bool   `json:"healthy"`
	Cordoned  bool   `json:"cordoned,omitempty"`
}

// Missing is what is charged to a device that is not there.
type Missing struct {
	UUID     string `json:"uuid"`
	Reserved Amount `json:"reserved"`
}

// Pod is what a pod is charged. Pods that hold nothing any more are left out.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Assumed   bool   `json:"assumed,omitempty"` // booked, and not yet shown by the watch
	Problem   string `json:"problem,omitempty"` // why it may hold more than it is charged
	From      int    `json:"from"`              // the first phase that is still charged, from 0
	// Devices is sorted by UUID.
	Devices []Held `json:"devices,omitempty"`
	// Charged is what its namespace is charged for it, by family, sorted.
	Charged []Used `json:"charged,omitempty"`
}

// Held is what a pod's remaining phases can use of one device.
type Held struct {
	UUID      string `json:"uuid"`
	Family    string `json:"family"`
	Reserved  Amount `json:"reserved"`
	Exclusive bool   `json:"exclusive,omitempty"` // it shares the device with nobody
}

// Namespace is one namespace's book.
type Namespace struct {
	Name   string  `json:"name"`
	Used   []Used  `json:"used,omitempty"`   // by family, sorted
	Quotas []Quota `json:"quotas,omitempty"` // sorted by quota, in the order of its keys
}

// Used is what a namespace is charged for one family: devices, MiB × devices and percent × devices. A pod
// charges it its largest remaining phase.
type Used struct {
	Family    string `json:"family"`
	Devices   int64  `json:"devices"`
	MemoryMiB int64  `json:"memoryMiB"`
	Cores     int64  `json:"cores"`
}

// Quota is one line of a ResourceQuota, in MiB or percent.
type Quota struct {
	Quota    string `json:"quota"`
	Resource string `json:"resource"` // its key
	Family   string `json:"family"`
	Used     int64  `json:"used"` // by the pods that its scopes select
	Max      int64  `json:"max"`
}

// Gate is one node's gate with a pod inside or waiting.
type Gate struct {
	Node        string   `json:"node"`
	Inside      []string `json:"inside,omitempty"` // namespace/name
	Waiting     int      `json:"waiting"`
	ShutSeconds float64  `json:"shutSeconds"` // since the first of those inside came in
}

// Read takes a picture of the books and the gates. seen was read before; release is the default policy.
func Read(seen uint64, release phase.Release, book *ledger.Book, gates []gate.State) Ledger {
	var l Ledger
	for range 3 { // a quiet moment is likely soon, and nobody must wait for one
		l = Ledger{Generation: book.Generation(), Seen: seen, Release: release.String()}
		l.Nodes = nodes(book.Nodes())
		l.Namespaces = namespaces(book.Namespaces())
		if l.Consistent = book.Generation() == l.Generation; l.Consistent {
			break
		}
	}
	for _, s := range gates {
		g := Gate{Node: s.Node, Waiting: s.Waiting, ShutSeconds: s.Shut.Seconds()}
		for _, p := range s.Inside {
			g.Inside = append(g.Inside, p.Name)
		}
		slices.Sort(g.Inside)
		l.Gates = append(l.Gates, g)
	}
	slices.SortFunc(l.Gates, func(a, b Gate) int { return cmp.Compare(a.Node, b.Node) })
	return l
}

func nodes(views []*ledger.View) []Node {
	var out []Node
	for _, v := range views {
		n := Node{Name: v.Name, Known: v.Known, Unreadable: v.Unreadable, Devices: devices(v), Missing: missing(v)}
		for _, e := range v.Pods {
			if len(e.Reserved.Devices) == 0 && e.Problem == "" {
				continue
			}
			p := Pod{UID: e.UID, Namespace: e.Namespace, Name: e.Name, Assumed: e.Assumed, Problem: e.Problem,
				From: e.First}
			for _, h := range e.Reserved.Devices {
				p.Devices = append(p.Devices,
					Held{UUID: h.UUID, Family: h.Family, Reserved: Amount(h.Amount), Exclusive: h.Exclusive})
			}
			for _, t := range e.Reserved.Totals {
				p.Charged = append(p.Charged, used(t.Family, t.Charge))
			}
			n.Pods = append(n.Pods, p)
		}
		slices.SortFunc(n.Pods, func(a, b Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		out = append(out, n)
	}
	return out
}

func devices(v *ledger.View) []Device {
	var out []Device
	for i, d := range v.Devices {
		out = append(out, Device{
			UUID: d.UUID, Family: d.Family, Index: d.Index, Healthy: d.Healthy, Cordoned: d.Cordoned,
			Capacity: Amount(d.Capacity), Reserved: Amount(v.Held[i].Amount), Exclusive: v.Held[i].Exclusive,
		})
	}
	return out
}

func missing(v *ledger.View) []Missing {
	var out []Missing
	for uuid, u := range v.Missing {
		out = append(out, Missing{UUID: uuid, Reserved: Amount(u.Amount)})
	}
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Compare(a.UUID, b.UUID) })
	return out
}

func namespaces(all []*ledger.Namespace) []Namespace {
	var out []Namespace
	for _, n := range all {
		o := Namespace{Name: n.Name}
		total := map[string]ledger.Charge{}
		for _, u := range n.Used {
			if sum, err := total[u.Family].Add(u.Charge); err == nil { // the ledger keeps sums in range
				total[u.Family] = sum
			}
		}
		for family, t := range total {
			o.Used = append(o.Used, used(family, t))
		}
		slices.SortFunc(o.Used, func(a, b Used) int { return cmp.Compare(a.Family, b.Family) })
		for _, u := range n.Usage() {
			o.Quotas = append(o.Quotas, Quota{Quota: u.Quota, Resource: u.Limit.Resource, Family: u.Limit.Family,
				Used: u.Used, Max: u.Limit.Max})
		}
		out = append(out, o)
	}
	return out
}

func used(family string, c ledger.Charge) Used {
	return Used{Family: family, Devices: c.Devices, MemoryMiB: c.MemoryMiB, Cores: c.Cores}
}
