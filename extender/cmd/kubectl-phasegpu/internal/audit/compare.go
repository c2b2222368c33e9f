package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
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

func (p place) key() key   { return key{deviceKind, p.node, p.uuid, ""} }
func (a account) key() key { return key{namespaceKind, a.namespace, a.family, ""} }
func (l limit) key() key   { return key{quotaKind, l.namespace, l.quota, l.resource} }

// difference is why a line says something else in the books than it must.
type difference struct {
	pods  []string // UIDs of those that the books charge wrongly there
	other []string // what no pod explains, in words
	rest  device.Amount
}

// differences is all lines that differ, and all pods that make it.
type differences struct {
	lines map[key]*difference
	pods  map[string]bool // by UID
}

// differ compares the books with what they must be. What no pod explains does not depend on when pods were
// looked at: it is about nodes and quotas, or between the lines of the books and their own pods.
func differ(s *State, want, got, apart *books) differences {
	d := differences{map[key]*difference{}, map[string]bool{}}
	d.comparePods(s, want, got)
	own := got.own(s)
	for _, p := range apart.pods {
		own.sum(&p)
	}
	aside := apart.own(s).quotas
	for name := range union(want.nodes, got.nodes) {
		k := key{nodeKind, name, "", ""}
		w, g := want.nodes[name], got.nodes[name]
		if w.known != g.known {
			d.other(k, "%s, %s", choose(g.known, "the books know it", "the books do not know it"),
				choose(w.known, "the API server has it", "the API server has no such node"))
		}
		if must := w.closed || own.nodes[name].closed; w.known && g.known && must != g.closed {
			d.other(k, "%s new pods in the books, %s",
				choose(g.closed, "takes no", "takes"), choose(must, "and cannot be read", "and can be read"))
		}
	}
	for at := range union(want.devices, got.devices) {
		d.compareFacts(at.key(), want.devices[at], got.devices[at])
		d.compareSum(at.key(), got.devices[at].held, own.devices[at].held)
	}
	for to := range union(own.namespaces, got.namespaces) {
		d.compareSum(to.key(), device.Usage{Amount: got.namespaces[to]}, device.Usage{Amount: own.namespaces[to]})
	}
	for at := range union(want.quotas, got.quotas) {
		k := at.key()
		w, inWant := want.quotas[at]
		g, inGot := got.quotas[at]
		switch {
		case !inGot:
			d.other(k, "not in the books, the API server limits it to %d", w.Max)
		case !inWant:
			d.other(k, "limited to %d in the books, the API server has no such limit", g.Max)
		case w.Max != g.Max:
			d.other(k, "limited to %d in the books, to %d at the API server", g.Max, w.Max)
		}
		if rest := g.used - own.quotas[at].used - aside[at].used; inGot && inWant && rest != 0 {
			d.other(k, ownSum, fmt.Sprintf("%+d", rest))
		}
	}
	return d
}

func (d differences) line(k key) *difference {
	if d.lines[k] == nil {
		d.lines[k] = &difference{}
	}
	return d.lines[k]
}

func (d differences) other(k key, format string, args ...any) {
	line := d.line(k)
	line.other = append(line.other, fmt.Sprintf(format, args...))
}

func (d differences) because(k key, uid string) {
	line := d.line(k)
	line.pods = append(line.pods, uid)
	d.pods[uid] = true
}

// comparePods finds the lines on which the books charge a pod wrongly.
func (d differences) comparePods(s *State, want, got *books) {
	for uid := range union(want.pods, got.pods) {
		w, g := want.pods[uid], got.pods[uid]
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
		namespace := cmp.Or(w.namespace, g.namespace)
		s.eachLimit(namespace, func(at limit, q *ledger.Quota, l ledger.Limit) {
			to := account{namespace, l.Family}
			if s.counts(uid, q, l, w.charged[to]) != s.counts(uid, q, l, g.charged[to]) {
				d.because(at.key(), uid)
			}
		})
	}
}

// compareFacts compares what is known of a device.
func (d differences) compareFacts(k key, w, g deviceLine) {
	if w.listed != g.listed {
		d.other(k, "%s, %s", choose(g.listed, "the books list it", "the books do not list it"),
			choose(w.listed, "the node's inventory does", "the node's inventory does not"))
	}
	if !w.listed || !g.listed {
		return
	}
	if w.capacity != g.capacity {
		d.other(k, "capacity %v in the books, %v in the inventory", g.capacity, w.capacity)
	}
	if w.family != g.family || w.index != g.index {
		d.other(k, "%s with index %d in the books, %s with index %d in the inventory",
			g.family, g.index, w.family, w.index)
	}
	if w.healthy != g.healthy {
		d.other(k, "%s in the books, %s on the node", choose(g.healthy, "healthy", "unhealthy"),
			choose(w.healthy, "healthy", "unhealthy"))
	}
	if w.cordoned != g.cordoned {
		d.other(k, "%s in the books, %s on the node", choose(g.cordoned, "cordoned", "not cordoned"),
			choose(w.cordoned, "cordoned", "not cordoned"))
	}
}

const ownSum = "differs from the sum of the books' own pods by %s"

// compareSum compares a line of a device or a namespace with what the books' own pods add up to. Of a device
// that its node does not list, the page does not say whether it is exclusive.
func (d differences) compareSum(k key, sum, own device.Usage) {
	if rest := minus(sum.Amount, own.Amount); !rest.IsZero() {
		d.line(k).rest = rest
		d.other(k, ownSum, parts(rest, "%+d"))
	}
	if sum.Exclusive && !own.Exclusive {
		d.other(k, "exclusive in the books, and shared by their own pods")
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

// union returns the keys of both maps.
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
func sorted[V any](keys map[key]V) []key {
	order := []kind{nodeKind, deviceKind, namespaceKind, quotaKind}
	return slices.SortedFunc(maps.Keys(keys), func(x, y key) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.kind), slices.Index(order, y.kind)),
			cmp.Compare(x.of, y.of), cmp.Compare(x.at, y.at), cmp.Compare(x.which, y.which))
	})
}
