package ledger

import (
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/placement"
)

// View is a node with its pods and what they hold. It is immutable: read only.
type View struct {
	Name       string
	Generation uint64 // Book.Generation after the change that made this view
	Devices    []device.Device
	Held       []device.Usage // parallel to Devices
	Unreadable string         // why the node takes no new pods, "" when it does
	// Missing is what pods hold on devices that the node does not list, by UUID; nil when nothing.
	Missing map[string]device.Usage
	Known   bool     // a Node fact was given
	Pods    []*Entry // bound and assumed, in no order

	inventory string // Node.Unreadable
}

// Placement returns the view as placement sees it.
func (v *View) Placement() placement.Node { return placement.Node{Devices: v.Devices, Held: v.Held} }

// Without returns the node as it would be if pods of these UIDs were gone.
func (v *View) Without(uids ...string) *View {
	gone := func(e *Entry) bool { return slices.Contains(uids, e.UID) }
	if v == nil || !slices.ContainsFunc(v.Pods, gone) {
		return v
	}
	w := *v
	w.Pods = slices.DeleteFunc(slices.Clone(v.Pods), gone)
	w.sum()
	return &w
}

// OverCommit is a device of which pods can use more than it has. That happens when containers run again after their
// memory was given to other pods, and when a device shrinks.
type OverCommit struct {
	UUID           string
	Held, Capacity device.Amount
}

// OverCommitted lists the devices that are held above their capacity, in the order of Devices.
func (v *View) OverCommitted() []OverCommit {
	var over []OverCommit
	for i, d := range v.Devices {
		if !v.Held[i].Within(d.Capacity) {
			over = append(over, OverCommit{UUID: d.UUID, Held: v.Held[i].Amount, Capacity: d.Capacity})
		}
	}
	return over
}

// index returns where a device is in Devices, -1 when the node does not list it.
func (v *View) index(uuid string) int {
	if v == nil {
		return -1
	}
	for i := range v.Devices {
		if v.Devices[i].UUID == uuid {
			return i
		}
	}
	return -1
}

// With returns the node as it would be if these entries were in its book: each in the place of its pod's own
// entry, if there is one.
func (v *View) With(entries ...*Entry) *View {
	if v == nil || len(entries) == 0 {
		return v
	}
	w := v.copied(len(entries))
	exact := true
	for _, e := range entries {
		at := slices.IndexFunc(w.Pods, func(o *Entry) bool { return o.UID == e.UID })
		exact = w.swap(at, e) && exact
	}
	if !exact {
		w.sum()
	}
	return w
}

// replaced returns the view with one entry in the place of another; either may be nil. It compares pointers, because
// comparing UIDs would read every entry of the node.
func (v *View) replaced(before, after *Entry) *View {
	more := 0
	if before == nil {
		more = 1
	}
	w := v.copied(more)
	if !w.swap(slices.Index(w.Pods, before), after) {
		w.sum()
	}
	return w
}

// swap puts an entry, nil for none, in the place of the one at an index, -1 for none. It reports false when sum is
// needed.
func (v *View) swap(at int, after *Entry) bool {
	var before *Entry
	switch {
	case at < 0:
		v.Pods = append(v.Pods, after)
	case after == nil:
		before = v.Pods[at]
		v.Pods = slices.Delete(v.Pods, at, at+1)
	default:
		before, v.Pods[at] = v.Pods[at], after
	}
	return v.shift(before, after)
}

// copied returns a view whose Pods, with room for more, and Held may be changed.
func (v *View) copied(more int) *View {
	w := *v
	w.Pods = append(make([]*Entry, 0, len(v.Pods)+more), v.Pods...)
	w.Held = slices.Clone(v.Held)
	return &w
}

// shift adds the difference between two entries to Held; either may be nil. It reports false when the result
// is not right and sum is needed: when a device is missing, an entry is unreadable, or the only exclusive
// holder may be gone.
func (v *View) shift(before, after *Entry) bool {
	if before != nil {
		if before.Problem != "" {
			return false
		}
		for i := range before.Reserved.Devices {
			h := &before.Reserved.Devices[i]
			at := v.index(h.UUID)
			if at < 0 || h.Exclusive {
				return false
			}
			less, err := v.Held[at].Sub(h.Amount)
			if err != nil {
				return false
			}
			v.Held[at].Amount = less
		}
	}
	if after == nil {
		return true
	}
	if after.Problem != "" {
		return false
	}
	for i := range after.Reserved.Devices {
		h := &after.Reserved.Devices[i]
		at := v.index(h.UUID)
		if at < 0 {
			return false
		}
		add(&v.Held[at], &h.Usage)
	}
	return true
}

// sum computes Held, Missing and Unreadable from the devices and the pods.
func (v *View) sum() {
	v.Held = make([]device.Usage, len(v.Devices))
	v.Missing = nil
	v.Unreadable = v.inventory
	var unreadable *Entry
	count := 0
	for _, e := range v.Pods {
		for i := range e.Reserved.Devices {
			h := &e.Reserved.Devices[i]
			if at := v.index(h.UUID); at >= 0 {
				add(&v.Held[at], &h.Usage)
				continue
			}
			if v.Missing == nil {
				v.Missing = map[string]device.Usage{}
			}
			u := v.Missing[h.UUID]
			add(&u, &h.Usage)
			v.Missing[h.UUID] = u
		}
		if e.Problem != "" {
			count++
			if unreadable == nil || comparePods(e, unreadable) < 0 {
				unreadable = e
			}
		}
	}
	if unreadable == nil || v.Unreadable != "" {
		return
	}
	v.Unreadable = fmt.Sprintf("what %v holds cannot be read: %s", &unreadable.Pod, unreadable.Problem)
	if count > 1 {
		v.Unreadable += fmt.Sprintf(" (and %d more pods)", count-1)
	}
}

// add adds what one pod reserves, whose range checkRange has checked.
func add(sum, u *device.Usage) {
	sum.Amount = sum.Plus(u.Amount)
	sum.Exclusive = sum.Exclusive || u.Exclusive
}

// offers reports whether devices may have room after a change that they had not before.
func offers(before, after []device.Device) bool {
	for _, d := range after {
		i := slices.IndexFunc(before, func(o device.Device) bool { return o.UUID == d.UUID })
		if i < 0 {
			return true
		}
		was := before[i]
		if !d.Capacity.Within(was.Capacity) || d.Healthy && !was.Healthy || !d.Cordoned && was.Cordoned {
			return true
		}
		// What else differs may please a selector that it did not please before.
		was.Capacity, was.Healthy, was.Cordoned = d.Capacity, d.Healthy, d.Cordoned
		if was != d {
			return true
		}
	}
	return false
}
