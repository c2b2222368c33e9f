package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// kind is a kind of line, in the order in which they are reported.
type kind string

const (
	nodeKind      kind = "node"
	deviceKind    kind = "device"
	namespaceKind kind = "namespace"
	quotaKind     kind = "quota"
)

// key names a line: a node; a node's device; a namespace's family; a namespace's quota and resource.
type key struct {
	kind          kind
	of, at, which string
}

// difference is a line of which two books say different things.
type difference struct {
	pods  []string // UIDs of those that make it
	other []string // what the pods do not explain, in words
}

// differ compares the books with what they must be.
func differ(want, got *books) map[key]*difference {
	d := differences{}
	d.pods(want, got)
	for name := range union(want.nodes, got.nodes) {
		k := key{nodeKind, name, "", ""}
		w, g := want.nodes[name], got.nodes[name]
		if w.known != g.known {
			d.other(k, "%s, %s", choose(g.known, "the books know it", "the books do not know it"), choose(w.known, "the API server has it", "the API server has no such node"))
		}
		if w.closed != g.closed && d[k] == nil {
			d.other(k, "%s new pods in the books, %s by the API server", choose(g.closed, "takes no", "takes"), choose(w.closed, "none", "some"))
		}
	}
	for at := range union(want.devices, got.devices) {
		d.device(at, want.devices[at], got.devices[at])
	}
	d.sums(want, got)
	for at := range union(want.quotas, got.quotas) {
		d.quota(at, want, got)
	}
	return d
}

type differences map[key]*difference

func (d differences) line(k key) *difference {
	if d[k] == nil {
		d[k] = &difference{}
	}
	return d[k]
}

func (d differences) other(k key, format string, args ...any) {
	line := d.line(k)
	line.other = append(line.other, fmt.Sprintf(format, args...))
}

// pods finds the lines on which a pod makes a difference.
func (d differences) pods(want, got *books) {
	for uid := range union(want.pods, got.pods) {
		w, g := want.pods[uid], got.pods[uid]
		if w.same(&g) {
			continue
		}
		for at := range union(w.held, g.held) {
			if w.held[at] != g.held[at] {
				d.because(at.key(), uid)
			}
		}
		for to := range union(w.charged, g.charged) {
			if w.charged[to] != g.charged[to] {
				d.because(to.key(), uid)
			}
		}
		if w.problem != g.problem {
			d.because(key{nodeKind, cmp.Or(w.node, g.node), "", ""}, uid)
		}
	}
}

func (d differences) because(k key, uid string) {
	line := d.line(k)
	line.pods = append(line.pods, uid)
}

func (p place) key() key   { return key{deviceKind, p.node, p.uuid, ""} }
func (a account) key() key { return key{namespaceKind, a.namespace, a.family, ""} }
func (l limit) key() key   { return key{quotaKind, l.namespace, l.quota, l.resource} }

// device compares what is known of a device.
func (d differences) device(at place, w, g deviceLine) {
	k := at.key()
	if w.listed != g.listed {
		d.other(k, "%s, %s", choose(g.listed, "the books list it", "the books do not list it"), choose(w.listed, "the node's inventory does", "the node's inventory does not"))
	}
	if !w.listed || !g.listed {
		return
	}
	if w.capacity != g.capacity {
		d.other(k, "capacity %v in the books, %v in the inventory", g.capacity, w.capacity)
	}
	if w.family != g.family || w.index != g.index {
		d.other(k, "%s with index %d in the books, %s with index %d in the inventory", g.family, g.index, w.family, w.index)
	}
	if w.healthy != g.healthy {
		d.other(k, "%s in the books, %s on the node", choose(g.healthy, "healthy", "unhealthy"), choose(w.healthy, "healthy", "unhealthy"))
	}
	if w.cordoned != g.cordoned {
		d.other(k, "%s in the books, %s on the node", choose(g.cordoned, "cordoned", "not cordoned"), choose(w.cordoned, "cordoned", "not cordoned"))
	}
	if w.exclusive != g.exclusive && d[k] == nil {
		d.other(k, "%s in the books, %s by its pods", choose(g.exclusive, "exclusive", "shared"), choose(w.exclusive, "exclusive", "shared"))
	}
}

// sums finds what the books of a device or a namespace have beyond what their own pods add up to.
func (d differences) sums(want, got *books) {
	rest := map[key]device.Amount{}
	for at, line := range got.devices {
		rest[at.key()] = line.reserved
	}
	for to, sum := range got.namespaces {
		rest[to.key()] = sum
	}
	for _, p := range got.pods {
		for at, held := range p.held {
			rest[at.key()] = minus(rest[at.key()], held)
		}
		for to, charge := range p.charged {
			rest[to.key()] = minus(rest[to.key()], charge)
		}
	}
	for k, r := range rest {
		if !r.IsZero() {
			d.other(k, "%s more in the books than their own pods hold", parts(r))
		}
	}
}

// parts writes what of an amount is not zero.
func parts(a device.Amount) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		unit string
	}{{a.MemoryMiB, "MiB"}, {a.Slots, "slots"}, {a.Cores, "% cores"}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", p.unit))
		}
	}
	return strings.Join(parts, ", ")
}

// quota compares a line of a ResourceQuota. What its pods are charged is the namespace's line.
func (d differences) quota(at limit, want, got *books) {
	k := at.key()
	w, inWant := want.quotas[at]
	g, inGot := got.quotas[at]
	switch {
	case !inGot:
		d.other(k, "not in the books, the API server limits it to %d", w.max)
		return
	case !inWant:
		d.other(k, "limited to %d in the books, the API server has no such limit", g.max)
		return
	case w.max != g.max:
		d.other(k, "limited to %d in the books, to %d at the API server", g.max, w.max)
	}
	if w.used == g.used {
		return
	}
	if line := d[account{at.namespace, w.family}.key()]; line != nil && len(line.pods) > 0 {
		for _, uid := range line.pods {
			d.because(k, uid)
		}
		return
	}
	d.other(k, "%d used in the books, %d by its pods", g.used, w.used)
}

// union iterates over the keys of both maps, each once.
func union[K comparable, V any](a, b map[K]V) map[K]struct{} {
	keys := make(map[K]struct{}, len(a)+len(b))
	for k := range a {
		keys[k] = struct{}{}
	}
	for k := range b {
		keys[k] = struct{}{}
	}
	return keys
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// sorted returns keys in the order of a report.
func sorted(keys map[key]*difference) []key {
	order := []kind{nodeKind, deviceKind, namespaceKind, quotaKind}
	return slices.SortedFunc(maps.Keys(keys), func(x, y key) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.kind), slices.Index(order, y.kind)),
			cmp.Compare(x.of, y.of), cmp.Compare(x.at, y.at), cmp.Compare(x.which, y.which))
	})
}
