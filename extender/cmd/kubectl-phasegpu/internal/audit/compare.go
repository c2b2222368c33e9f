package audit

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// difference is why a line says something else in the books than it must.
type difference struct {
	pods  []string // UIDs of those that the books charge wrongly there
	other []string // what no pod explains, in words
	rest  device.Amount
}

func (d *difference) add(format string, args ...any) {
	d.other = append(d.other, fmt.Sprintf(format, args...))
}

// differences is all lines that differ, and all pods that make it.
type differences struct {
	lines map[key]*difference
	pods  map[string]bool // by UID
}

// differ compares the books with what they must be. What no pod explains does not depend on when pods were read: it is
// about nodes and quotas, or between the lines of the books and their own pods.
func differ(want, got, apart *books) differences {
	all := differences{map[key]*difference{}, map[string]bool{}}
	at := func(k key) *difference {
		if all.lines[k] == nil {
			all.lines[k] = &difference{}
		}
		return all.lines[k]
	}
	for uid := range union(want.pods, got.pods) {
		w, g := want.pods[uid].parts, got.pods[uid].parts
		for k := range union(w, g) {
			if w[k] != g[k] {
				at(k).pods = append(at(k).pods, uid)
				all.pods[uid] = true
			}
		}
	}
	own, aside := got.sum(), apart.sum()
	for k := range union(union(want.lines, got.lines), own) {
		sum := own[k].plus(aside[k])
		var d difference
		switch w, g := want.lines[k], got.lines[k]; k.kind {
		case nodeKind:
			d.compareNodes(w.facts, g.facts, own[k].closes)
		case deviceKind:
			d.compareDevices(&w.facts, &g.facts)
			d.compareSums(g.Usage, sum.Usage)
		case namespaceKind:
			d.compareSums(g.Usage, sum.Usage)
		case quotaKind:
			d.compareLimits(w.facts, g.facts, g.used-sum.used)
		}
		if len(d.other) > 0 {
			line := at(k)
			line.other, line.rest = d.other, d.rest
		}
	}
	return all
}

func (d *difference) compareNodes(w, g facts, closedByPods bool) {
	if w.known != g.known {
		d.add("%s, %s", choose(g.known, "the books know it", "the books do not know it"),
			choose(w.known, "the API server has it", "the API server has no such node"))
	}
	if must := w.closed || closedByPods; w.known && g.known && must != g.closed {
		d.add("%s new pods in the books, %s",
			choose(g.closed, "takes no", "takes"), choose(must, "and cannot be read", "and can be read"))
	}
}

func (d *difference) compareDevices(w, g *facts) {
	if w.known != g.known {
		d.add("%s, %s", choose(g.known, "the books list it", "the books do not list it"),
			choose(w.known, "the node's inventory does", "the node's inventory does not"))
	}
	if !w.known || !g.known {
		return
	}
	if w.capacity != g.capacity {
		d.add("capacity %v in the books, %v in the inventory", g.capacity, w.capacity)
	}
	if w.family != g.family || w.index != g.index {
		d.add("%s with index %d in the books, %s with index %d in the inventory", g.family, g.index, w.family, w.index)
	}
	compare := func(w, g bool, yes, no string) {
		if w != g {
			d.add("%s in the books, %s on the node", choose(g, yes, no), choose(w, yes, no))
		}
	}
	compare(w.healthy, g.healthy, "healthy", "unhealthy")
	compare(w.cordoned, g.cordoned, "cordoned", "not cordoned")
}

func (d *difference) compareLimits(w, g facts, rest int64) {
	switch {
	case !g.known:
		d.add("not in the books, the API server limits it to %d", w.limit.Max)
	case !w.known:
		d.add("limited to %d in the books, the API server has no such limit", g.limit.Max)
	case w.limit.Max != g.limit.Max:
		d.add("limited to %d in the books, to %d at the API server", g.limit.Max, w.limit.Max)
	}
	if w.known && g.known && rest != 0 {
		d.add(ownSum, fmt.Sprintf("%+d", rest))
	}
}

const ownSum = "differs from the sum of the books' own pods by %s"

// compareSums compares a line of a device or a namespace with what the books' own pods add up to. Of a device
// that its node does not list, the extender does not say whether it is exclusive.
func (d *difference) compareSums(line, own device.Usage) {
	if d.rest = minus(line.Amount, own.Amount); !d.rest.IsZero() {
		d.add(ownSum, parts(d.rest, "%+d"))
	}
	if line.Exclusive && !own.Exclusive {
		d.add("exclusive in the books, and shared by their own pods")
	}
}

// parts writes what of an amount is not zero.
func parts(a device.Amount, format string) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		unit string
	}{{a.MemoryMiB, "MiB"}, {a.Slots, "slots"}, {a.Cores, "% cores"}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf(format+" %s", p.n, p.unit))
		}
	}
	return strings.Join(parts, ", ")
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
