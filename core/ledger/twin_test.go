package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// twin is the book as slow and obvious as it can be: it keeps the facts it was told and sums all of
// them up anew for every question.
type twin struct {
	pods   map[string]fact // by UID
	nodes  map[string]Node
	quotas map[[2]string]Quota // by namespace and name
}

type fact struct {
	Pod
	assumed bool
}

func newTwin() *twin {
	return &twin{pods: map[string]fact{}, nodes: map[string]Node{}, quotas: map[[2]string]Quota{}}
}

// observe keeps the newest fact with a node.
func (t *twin) observe(p Pod) {
	old, known := t.pods[p.UID]
	switch {
	case p.Node != "" && (!known || old.assumed || p.Version >= old.Version):
		t.pods[p.UID] = fact{Pod: p}
	case p.Node == "" && old.assumed && p.First == phase.None:
		delete(t.pods, p.UID)
	}
}

// largest returns the largest total, over the remaining phases of a pod, of the shares that count, and
// whether one of them is exclusive.
func largest(p Pod, counts func(device.Share) bool) device.Usage {
	var most device.Usage
	for k := range p.Classes.Len() {
		if k < p.First {
			continue
		}
		var sum device.Amount
		for position, shares := range p.Allocation {
			for _, s := range shares {
				if p.Classes.Alive(k, position) && counts(s) {
					sum.Slots += s.Amount.Slots
					sum.MemoryMiB += s.Amount.MemoryMiB
					sum.Cores += s.Amount.Cores
					most.Exclusive = most.Exclusive || s.Amount.Cores == device.WholeCores
				}
			}
		}
		most.Slots = max(most.Slots, sum.Slots)
		most.MemoryMiB = max(most.MemoryMiB, sum.MemoryMiB)
		most.Cores = max(most.Cores, sum.Cores)
	}
	return most
}

// held returns what pods other than one hold on a device of a node.
func (t *twin) held(node, uuid, except string) device.Usage {
	var sum device.Usage
	for uid, p := range t.pods {
		if uid != except && p.Node == node {
			u := largest(p.Pod, func(s device.Share) bool { return s.UUID == uuid })
			sum.Slots += u.Slots
			sum.MemoryMiB += u.MemoryMiB
			sum.Cores += u.Cores
			sum.Exclusive = sum.Exclusive || u.Exclusive
		}
	}
	return sum
}

// unreadable returns how many live pods other than one match and cannot be read.
func (t *twin) unreadable(except string, match func(Pod) bool) int {
	n := 0
	for uid, p := range t.pods {
		if uid != except && p.Unreadable != "" && p.First != phase.None && match(p.Pod) {
			n++
		}
	}
	return n
}

// used returns what pods other than one are charged for a family, those whose scope counts.
func (t *twin) used(namespace, family, except string, counts func(Scope) bool) Charge {
	var sum Charge
	for uid, p := range t.pods {
		if uid != except && p.Namespace == namespace && (counts == nil || counts(p.Scope)) {
			u := largest(p.Pod, func(s device.Share) bool { return s.Family == family })
			sum.Devices += u.Slots
			sum.MemoryMiB += u.MemoryMiB
			sum.Cores += u.Cores
		}
	}
	return sum
}

// refuses reports whether the twin would refuse an assumption, and why.
func (t *twin) refuses(p Pod) string {
	if old, ok := t.pods[p.UID]; ok && !old.assumed {
		return "bound"
	}
	n, known := t.nodes[p.Node]
	if !known || n.Unreadable != "" || t.unreadable(p.UID, func(q Pod) bool { return q.Node == p.Node }) > 0 {
		return "node"
	}
	for _, d := range n.Devices {
		mine := largest(p, func(s device.Share) bool { return s.UUID == d.UUID })
		if mine.MemoryMiB > 0 && t.held(p.Node, d.UUID, p.UID).MemoryMiB+mine.MemoryMiB > d.Capacity.MemoryMiB {
			return "room"
		}
	}
	for _, q := range t.quotas {
		if q.Namespace != p.Namespace || q.Selects != nil && !q.Selects(p.Scope) {
			continue
		}
		for _, l := range q.Limits {
			ask := largest(p, func(s device.Share) bool { return s.Family == l.Family }).MemoryMiB
			used := t.used(p.Namespace, l.Family, p.UID, q.Selects).MemoryMiB
			if l.Dimension == Cores {
				ask = largest(p, func(s device.Share) bool { return s.Family == l.Family }).Cores
				used = t.used(p.Namespace, l.Family, p.UID, q.Selects).Cores
			}
			unknown := t.unreadable(p.UID, func(o Pod) bool {
				return o.Namespace == p.Namespace && (q.Selects == nil || q.Selects(o.Scope))
			})
			if ask > 0 && (used+ask > l.Max || unknown > 0) {
				return "quota"
			}
		}
	}
	return ""
}

// books is everything that can be asked of a book, in a form that compares and prints.
type books map[string]string

// diff returns the first question that two books answer differently, "" when none.
func (b books) diff(want books) string {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if b[k] != want[k] {
			return fmt.Sprintf("%s: the book says %q, the twin %q", k, b[k], want[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%s: the book says %q, the twin nothing", k, b[k])
		}
	}
	return ""
}

// books answers every question from the facts.
func (t *twin) books() books {
	out := books{}
	for uid, p := range t.pods {
		out["pod "+uid] = fmt.Sprintf("%s on %s from phase %d, assumed %t", p.Name, p.Node, p.First, p.assumed)
		out["on "+p.Node+" "+uid] = fmt.Sprint("from phase ", p.First)
		for _, shares := range p.Allocation {
			for _, s := range shares {
				if u := t.held(p.Node, s.UUID, ""); u != (device.Usage{}) {
					out["device "+p.Node+" "+s.UUID] = fmt.Sprint(u)
				}
				for _, scope := range scopes {
					if u := t.used(p.Namespace, s.Family, "", func(s Scope) bool { return s == scope }); !u.IsZero() {
						out[fmt.Sprint("used ", p.Namespace, s.Family, scope)] = fmt.Sprint(u)
					}
				}
			}
		}
		if n := t.unreadable("", func(q Pod) bool { return q.Node == p.Node }); n > 0 {
			out["closed "+p.Node] = "true"
		}
		if p.Unreadable != "" && p.First != phase.None {
			out["unreadable in "+p.Namespace+" "+uid] = p.Unreadable
		}
	}
	for name, n := range t.nodes {
		out["known "+name] = fmt.Sprint(n.Devices)
		if n.Unreadable != "" {
			out["closed "+name] = "true"
		}
	}
	for _, q := range t.quotas {
		for i, l := range q.Limits {
			used := t.used(q.Namespace, l.Family, "", q.Selects)
			out[fmt.Sprint("limit ", q.Namespace, q.Name, i)] = fmt.Sprint(l.Dimension.of(used), " of ", l.Max)
		}
	}
	return out
}

// pictures is everything a book hands out, which must never change.
type pictures struct {
	pods       []*Entry
	nodes      []*View
	namespaces []*Namespace
}

func picturesOf(b *Book) pictures { return pictures{b.Pods(), b.Nodes(), b.Namespaces()} }

func allBooks(b *Book) books { return picturesOf(b).books() }

// books answers every question from a book's pictures.
func (p pictures) books() books {
	out := books{}
	for _, e := range p.pods {
		out["pod "+e.UID] = fmt.Sprintf("%s on %s from phase %d, assumed %t", e.Name, e.Node, e.First, e.Assumed)
	}
	for _, v := range p.nodes {
		if v.Known {
			out["known "+v.Name] = fmt.Sprint(v.Devices)
		}
		if v.Unreadable != "" {
			out["closed "+v.Name] = "true"
		}
		for _, e := range v.Pods {
			out["on "+v.Name+" "+e.UID] = fmt.Sprint("from phase ", e.First)
		}
		for i, u := range v.Held {
			if u != (device.Usage{}) {
				out["device "+v.Name+" "+v.Devices[i].UUID] = fmt.Sprint(u)
			}
		}
		for uuid, u := range v.Missing {
			out["device "+v.Name+" "+uuid] = fmt.Sprint(u)
		}
	}
	for _, n := range p.namespaces {
		for _, u := range n.Used {
			out[fmt.Sprint("used ", n.Name, u.Family, u.Scope)] = fmt.Sprint(u.Charge)
		}
		for _, e := range n.Unreadable {
			out["unreadable in "+n.Name+" "+e.UID] = e.Problem
		}
		of := map[string]int{}
		for _, u := range n.Usage() {
			out[fmt.Sprint("limit ", n.Name, u.Quota, of[u.Quota])] = fmt.Sprint(u.Used, " of ", u.Limit.Max)
			of[u.Quota]++
		}
	}
	return out
}
