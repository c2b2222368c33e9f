package ui

import (
	"cmp"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// NodeRow is a node with its devices and pods.
type NodeRow struct {
	Name       string      `json:"name"`
	Known      bool        `json:"known"`                // false: pods are charged there, but there is no such node
	Unreadable string      `json:"unreadable,omitempty"` // why it takes no new pods
	Devices    []DeviceRow `json:"devices,omitempty"`
	Missing    []Missing   `json:"missing,omitempty"` // what pods hold of devices that the node does not list
	Pods       []PodRow    `json:"pods,omitempty"`
}

// DeviceRow is a device, and how much of what is reserved its pods keep to their end.
type DeviceRow struct {
	Device
	Model  string `json:"model,omitempty"`
	Mode   string `json:"mode"`
	Steady Amount `json:"steady"`
}

// PodRow is a pod with its phases.
type PodRow struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Assumed   bool   `json:"assumed,omitempty"` // booked, and not yet shown by the watch
	Problem   string `json:"problem,omitempty"` // why it may hold more than it is charged
	// First is the first phase that is still charged: those before it have given back what only they needed.
	First int `json:"first"`
	// Devices are those that any phase uses, sorted by UUID; 0 is reserved where no remaining phase uses one.
	Devices    []Held         `json:"devices,omitempty"`
	Containers []PodContainer `json:"containers,omitempty"`
	Phases     []PodPhase     `json:"phases,omitempty"`
}

// PodContainer is a container, by position: the books keep no names.
type PodContainer struct {
	Class     string `json:"class"`
	Devices   int    `json:"devices"`   // how many it holds
	MemoryMiB int64  `json:"memoryMiB"` // of all of them together
	Cores     int64  `json:"cores"`
}

// PodPhase is a phase: who is alive in it and what they hold together.
type PodPhase struct {
	Init  int      `json:"init"`            // position of the init container that it is named after, -1: steady state
	Alive []int    `json:"alive,omitempty"` // positions
	Holds []Amount `json:"holds"`           // parallel to the pod's devices
}

// NamespaceRow is a namespace's book, and what its pods will give back when their init containers have ended.
type NamespaceRow struct {
	Name    string     `json:"name"`
	Used    []Used     `json:"used,omitempty"`    // by family, sorted
	Quotas  []QuotaRow `json:"quotas,omitempty"`  // sorted by quota, in the order of its keys
	Held    []Used     `json:"held,omitempty"`    // by family, sorted
	Unclear []string   `json:"unclear,omitempty"` // what cannot be read, so that a quota there blocks
}

// QuotaRow is one line of a ResourceQuota.
type QuotaRow struct {
	Quota
	Unit string `json:"unit"` // "MiB" or "%"
}

// nodeSum is a node with what is computed over its pods.
type nodeSum struct {
	*ledger.View
	steady []device.Amount // parallel to Devices
	inits  bool            // a pod there will give something back
	ill    bool            // a device is over capacity or unhealthy, or a pod has a problem
}

// sum computes a node's steady state, and adds the node to totals and what its pods will give back to held.
func sum(v *ledger.View, totals map[string]*Total, held map[string]map[string]ledger.Charge) nodeSum {
	n := nodeSum{View: v, steady: make([]device.Amount, len(v.Devices))}
	for i := range v.Held {
		n.steady[i] = v.Held[i].Amount
	}
	for _, e := range v.Pods {
		n.ill = n.ill || e.Problem != ""
		if e.First == phase.None || !initsAhead(e) {
			continue
		}
		keeps := steady(e)
		for _, h := range e.Reserved.Devices {
			i := slices.IndexFunc(v.Devices, func(d device.Device) bool { return d.UUID == h.UUID })
			if i < 0 {
				continue
			}
			k := slices.IndexFunc(keeps.Devices,
				func(k phase.Holding) bool { return k.UUID == h.UUID && k.Family == h.Family })
			var kept device.Amount
			if k >= 0 {
				kept = keeps.Devices[k].Amount
			}
			n.steady[i] = minus(n.steady[i], minus(h.Amount, kept))
			n.inits = n.inits || h.Amount != kept
		}
		for _, t := range e.Reserved.Totals {
			// The steady state may use no device of a family at all.
			var kept ledger.Charge
			if k := slices.IndexFunc(keeps.Totals, func(k phase.Total) bool { return k.Family == t.Family }); k >= 0 {
				kept = keeps.Totals[k].Charge
			}
			gives, err := t.Sub(kept)
			if err != nil || gives.IsZero() { // what is kept is part of it
				continue
			}
			if held[e.Namespace] == nil {
				held[e.Namespace] = map[string]ledger.Charge{}
			}
			if all, err := held[e.Namespace][t.Family].Add(gives); err == nil { // the ledger keeps sums in range
				held[e.Namespace][t.Family] = all
			}
		}
	}
	for i := range v.Devices {
		n.add(i, totals)
	}
	return n
}

// add counts a device among its family's.
func (n *nodeSum) add(i int, totals map[string]*Total) {
	d, reserved := &n.Devices[i], n.Held[i].Amount
	t := totals[d.Family]
	if t == nil {
		t = &Total{Family: d.Family}
		totals[d.Family] = t
	}
	t.Devices++
	t.CapacityMiB += d.Capacity.MemoryMiB
	t.SteadyMiB += n.steady[i].MemoryMiB
	t.HeldMiB += reserved.MemoryMiB - n.steady[i].MemoryMiB
	t.OverMiB += max(0, reserved.MemoryMiB-d.Capacity.MemoryMiB)
	free := max(0, d.Capacity.MemoryMiB-reserved.MemoryMiB)
	if d.Healthy && !d.Cordoned && d.Mode != device.MIG && n.Unreadable == "" {
		t.FreeMiB += free
	} else {
		t.OutMiB += free
	}
	n.ill = n.ill || !d.Healthy || !reserved.Within(d.Capacity)
}

// attention reports whether something about a node is not as it should be. A cordon is as somebody wants it.
func (n *nodeSum) attention() bool {
	return n.ill || !n.Known || n.Unreadable != "" || len(n.Missing) > 0
}

// strained reports whether a pod holds a device that is over capacity, unhealthy or not there.
func (n *nodeSum) strained(e *ledger.Entry) bool {
	return slices.ContainsFunc(e.Reserved.Devices, func(h phase.Holding) bool {
		i := slices.IndexFunc(n.Devices, func(d device.Device) bool { return d.UUID == h.UUID })
		return i < 0 || !n.Devices[i].Healthy || !n.Held[i].Within(n.Devices[i].Capacity)
	})
}

// row is the node as the page shows it.
func (n *nodeSum) row() NodeRow {
	r := NodeRow{Name: n.Name, Known: n.Known, Unreadable: n.Unreadable, Missing: missing(n.View)}
	for i, d := range devices(n.View) {
		of := &n.View.Devices[i]
		r.Devices = append(r.Devices,
			DeviceRow{Device: d, Model: of.Model, Mode: of.Mode.String(), Steady: Amount(n.steady[i])})
	}
	pods := slices.DeleteFunc(slices.Clone(n.View.Pods), func(e *ledger.Entry) bool { return !holds(e) })
	slices.SortFunc(pods, comparePods)
	for _, e := range pods {
		r.Pods = append(r.Pods, podRow(e))
	}
	return r
}

// podRow is a pod as the page shows it. A pod that cannot be accounted for has no phases, but a Problem.
func podRow(e *ledger.Entry) PodRow {
	r := PodRow{UID: e.UID, Namespace: e.Namespace, Name: e.Name, Node: e.Node, Assumed: e.Assumed, Problem: e.Problem,
		First: e.First}
	if e.First == phase.None {
		r.First = e.Classes.Len()
	}
	peak, err := e.Classes.Reserved(e.Allocation, 0)
	if err != nil {
		return r
	}
	for _, p := range peak.Devices {
		d := Held{UUID: p.UUID, Family: p.Family}
		if i := slices.IndexFunc(e.Reserved.Devices,
			func(h phase.Holding) bool { return h.UUID == p.UUID && h.Family == p.Family }); i >= 0 {
			d.Reserved, d.Exclusive = Amount(e.Reserved.Devices[i].Amount), e.Reserved.Devices[i].Exclusive
		}
		r.Devices = append(r.Devices, d)
	}
	if e.Allocation == nil {
		return r
	}
	for position, c := range e.Classes {
		container := PodContainer{Class: c.String(), Devices: len(e.Allocation[position])}
		for _, s := range e.Allocation[position] {
			container.MemoryMiB += s.Amount.MemoryMiB
			container.Cores += s.Amount.Cores
		}
		r.Containers = append(r.Containers, container)
	}
	for k := range e.Classes.Len() {
		r.Phases = append(r.Phases, podPhase(e, k, r.Devices))
	}
	return r
}

// podPhase sums up what the containers that are alive in a phase hold of each device. The sums are in range:
// the peak's were.
func podPhase(e *ledger.Entry, k int, devices []Held) PodPhase {
	p := PodPhase{Init: e.Classes.InitPosition(k), Holds: make([]Amount, len(devices))}
	for position, shares := range e.Allocation {
		if len(shares) == 0 || !e.Classes.Alive(k, position) {
			continue
		}
		p.Alive = append(p.Alive, position)
		for _, s := range shares {
			i := slices.IndexFunc(devices, func(d Held) bool { return d.UUID == s.UUID && d.Family == s.Family })
			a := &p.Holds[i]
			a.Slots, a.MemoryMiB, a.Cores = a.Slots+s.Amount.Slots, a.MemoryMiB+s.Amount.MemoryMiB,
				a.Cores+s.Amount.Cores
		}
	}
	return p
}

func namespaceRow(n *ledger.Namespace, held map[string]ledger.Charge) NamespaceRow {
	base := namespaces([]*ledger.Namespace{n})[0]
	r := NamespaceRow{Name: n.Name, Used: base.Used}
	for family, a := range held {
		r.Held = append(r.Held, used(family, a))
	}
	slices.SortFunc(r.Held, func(a, b Used) int { return cmp.Compare(a.Family, b.Family) })
	for i, u := range n.Usage() {
		unit := "MiB"
		if u.Limit.Dimension == ledger.Cores {
			unit = "%"
		}
		r.Quotas = append(r.Quotas, QuotaRow{base.Quotas[i], unit})
		if u.Limit.Unreadable != "" {
			r.Unclear = append(r.Unclear, "quota "+u.Quota+": "+u.Limit.Unreadable)
		}
	}
	for _, e := range n.Unreadable {
		r.Unclear = append(r.Unclear, e.String()+": "+e.Problem)
	}
	slices.Sort(r.Unclear)
	return r
}

// minus subtracts what is part of a.
func minus(a, b device.Amount) device.Amount {
	return device.Amount{Slots: a.Slots - b.Slots, MemoryMiB: a.MemoryMiB - b.MemoryMiB, Cores: a.Cores - b.Cores}
}
