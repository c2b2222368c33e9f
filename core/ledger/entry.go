package ledger

import (
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Entry is what the book holds for one pod. It is never changed, only replaced: read only.
type Entry struct {
	Pod
	Assumed bool // booked by Assume and not yet observed on a node
	// Reserved is what the pod is charged, and what Remove subtracts.
	Reserved phase.Reservation
	// Problem says why Reserved may be less than what the pod holds, "" when it is exact or the pod has ended.
	Problem string
}

// entry computes what a pod is charged. It shares classes and allocation with the entry before when they are equal and
// copies them otherwise, so it keeps none of the caller's slices. Strings that the book holds already are not held
// twice.
func (b *Book) entry(p *Pod, assumed bool, before *Entry) *Entry {
	e := &Entry{Pod: *p, Assumed: assumed, Problem: p.Unreadable}
	if before != nil {
		e.UID, e.Namespace, e.Name = before.UID, before.Namespace, before.Name
	}
	if n := b.namespaces.load(p.Namespace); n != nil {
		e.Namespace, e.Scope = n.Name, n.scope(p.Scope)
	}
	if before != nil && before.Node == p.Node && slices.Equal(before.Classes, p.Classes) &&
		before.Allocation.Equal(p.Allocation) {
		e.Node, e.Classes, e.Allocation = before.Node, before.Classes, before.Allocation
	} else {
		e.Classes = slices.Clone(p.Classes)
		node := b.nodes.load(p.Node)
		if node != nil {
			e.Node = node.Name
		}
		e.Allocation = copyAllocation(p.Allocation, node)
	}
	if e.First == phase.None {
		e.Problem = ""
		return e
	}
	reserved, err := e.Classes.Reserved(e.Allocation, e.First)
	if err == nil {
		err = checkRange(e.Allocation)
	}
	if err != nil {
		if e.Problem == "" {
			e.Problem = err.Error()
		}
		return e
	}
	e.Reserved = reserved
	return e
}

// copyAllocation copies an allocation into two slices, however many containers it has.
func copyAllocation(a device.Allocation, node *View) device.Allocation {
	if a == nil {
		return nil
	}
	n := 0
	for _, shares := range a {
		n += len(shares)
	}
	all := make([]device.Share, 0, n)
	out := make(device.Allocation, len(a))
	for position, shares := range a {
		start := len(all)
		for _, s := range shares {
			if i := node.index(s.UUID); i >= 0 {
				s.UUID = node.Devices[i].UUID
				if s.Family == node.Devices[i].Family {
					s.Family = node.Devices[i].Family
				}
			}
			all = append(all, s)
		}
		if len(all) > start {
			out[position] = all[start:len(all):len(all)]
		}
	}
	return out
}

// checkRange refuses shares that no device can have. Below the limits, no sum over fewer than 2^40
// shares can overflow.
func checkRange(a device.Allocation) error {
	limit := device.Amount{Slots: 1, MemoryMiB: device.MaxMemoryMiB, Cores: device.WholeCores}
	for position, shares := range a {
		for _, s := range shares {
			if !s.Amount.Within(limit) || !(device.Amount{}).Within(s.Amount) {
				return fmt.Errorf("container %d holds %v of device %s, outside 0 to %v", position, s.Amount, s.UUID,
					limit)
			}
		}
	}
	return nil
}

// exceeds reports whether a holds anything that b does not. Both may be nil.
func exceeds(a, b *Entry) bool {
	if a == nil {
		return false
	}
	if b == nil || a.Node != b.Node || a.Namespace != b.Namespace || a.Scope != b.Scope {
		return len(a.Reserved.Devices) > 0 || a.Problem != ""
	}
	if a.Problem != "" && b.Problem == "" {
		return true
	}
	for _, h := range a.Reserved.Devices {
		i := slices.IndexFunc(b.Reserved.Devices, func(o phase.Holding) bool {
			return o.UUID == h.UUID &&
				o.Family == h.Family
		})
		if i < 0 || !h.Within(b.Reserved.Devices[i].Amount) || h.Exclusive && !b.Reserved.Devices[i].Exclusive {
			return true
		}
	}
	for _, t := range a.Reserved.Totals {
		if !t.Within(b.total(t.Family)) {
			return true
		}
	}
	return false
}

// total returns what the pod charges its namespace for a family.
func (e *Entry) total(family string) Charge {
	for _, t := range e.Reserved.Totals {
		if t.Family == family {
			return t.Charge
		}
	}
	return Charge{}
}
