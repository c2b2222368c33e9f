package audit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// kind is a kind of line.
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

// facts are what is known of a line apart from pods.
type facts struct {
	known bool // there is the node or the limit, or the node lists the device

	closed bool // the node takes no new pods

	family            string // of a device
	index             int
	capacity          device.Amount
	healthy, cordoned bool

	limit ledger.Limit
}

// part is what a pod, or several, come to on a line.
type part struct {
	device.Usage       // of a device, or charged to a namespace
	used         int64 // of a quota
	closes       bool  // the node, because the record cannot be read
}

func (p part) plus(o part) part {
	usage := device.Usage{Amount: plus(p.Amount, o.Amount), Exclusive: p.Exclusive || o.Exclusive}
	return part{usage, p.used + o.used, p.closes || o.closes}
}

// line is a line of books: its facts, and what they say that pods come to.
type line struct {
	facts
	part
}

// podLine is what books say of a pod.
type podLine struct {
	namespace, name, node string
	from                  int // the first phase that is charged
	problem, assumed      bool
	parts                 map[key]part
}

func (p *podLine) add(k key, more part) {
	if sum := p.parts[k].plus(more); sum != (part{}) {
		p.parts[k] = sum
	}
}

// books are what is compared: an extender's, or those that the API server's objects come to. A line that says
// nothing is as good as none.
type books struct {
	lines map[key]line
	pods  map[string]podLine // by UID
}

func newBooks() *books { return &books{map[key]line{}, map[string]podLine{}} }

// addPod adds a pod that holds anything. Where its charge counts against quotas, and that an unreadable record closes
// its node, follows from the state.
func (b *books) addPod(s *State, uid string, p podLine) {
	if p.problem {
		p.add(key{nodeKind, p.node, "", ""}, part{closes: true})
	}
	s.eachLimit(p.namespace, func(k key, q *ledger.Quota, l ledger.Limit) {
		charge := p.parts[key{namespaceKind, p.namespace, l.Family, ""}].Amount
		p.add(k, part{used: s.counts(uid, q, l, charge)})
	})
	if len(p.parts) > 0 {
		b.pods[uid] = p
	}
}

// sum returns what the pods of books come to, by line.
func (b *books) sum() map[key]part {
	sums := map[key]part{}
	for _, p := range b.pods {
		for k, more := range p.parts {
			sums[k] = sums[k].plus(more)
		}
	}
	return sums
}

// read returns the books as an extender served them. What is assumed for pods that wait for their node
// is not among the pods but apart: it is in no recomputation.
func read(l *ui.Ledger, s *State) (all, apart *books, assumed []Assumed) {
	all, apart = newBooks(), newBooks()
	for _, n := range l.Nodes {
		all.lines[key{nodeKind, n.Name, "", ""}] = line{facts: facts{known: n.Known, closed: n.Unreadable != ""}}
		for _, d := range n.Devices {
			all.lines[key{deviceKind, n.Name, d.UUID, ""}] = line{
				facts{
					known: true, family: d.Family, index: d.Index, capacity: device.Amount(d.Capacity),
					healthy: d.Healthy, cordoned: d.Cordoned,
				},
				part{Usage: device.Usage{Amount: device.Amount(d.Reserved), Exclusive: d.Exclusive}},
			}
		}
		for _, m := range n.Missing {
			held := device.Usage{Amount: device.Amount(m.Reserved)}
			all.lines[key{deviceKind, n.Name, m.UUID, ""}] = line{part: part{Usage: held}}
		}
		for i := range n.Pods {
			p := &n.Pods[i]
			into := all
			if p.Assumed && s.pending(p.UID) {
				into = apart
				assumed = append(assumed, Assumed{p.Namespace, p.Name, n.Name, p.Devices})
			}
			into.addPod(s, p.UID, fromPage(n.Name, p))
		}
	}
	for _, n := range l.Namespaces {
		for _, u := range n.Used {
			all.lines[key{namespaceKind, n.Name, u.Family, ""}] = line{part: charged(u)}
		}
		for _, q := range n.Quotas {
			all.lines[key{quotaKind, n.Name, q.Quota, q.Resource}] = line{
				facts{known: true, limit: ledger.Limit{Family: q.Family, Max: q.Max}}, part{used: q.Used},
			}
		}
	}
	return all, apart, assumed
}

func fromPage(node string, p *ui.Pod) podLine {
	pod := podLine{
		namespace: p.Namespace, name: p.Name, node: node, from: p.From, problem: p.Problem != "", assumed: p.Assumed,
		parts: map[key]part{},
	}
	for _, h := range p.Devices {
		held := device.Usage{Amount: device.Amount(h.Reserved), Exclusive: h.Exclusive}
		pod.add(key{deviceKind, node, h.UUID, ""}, part{Usage: held})
	}
	for _, u := range p.Charged {
		pod.add(key{namespaceKind, p.Namespace, u.Family, ""}, charged(u))
	}
	return pod
}

func charged(u ui.Used) part {
	return part{Usage: device.Usage{Amount: device.Amount{Slots: u.Devices, MemoryMiB: u.MemoryMiB, Cores: u.Cores}}}
}

// sorted returns keys in the order of a report.
func sorted[V any](keys map[key]V) []key {
	order := []kind{nodeKind, deviceKind, namespaceKind, quotaKind}
	return slices.SortedFunc(maps.Keys(keys), func(x, y key) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.kind), slices.Index(order, y.kind)),
			cmp.Compare(x.of, y.of), cmp.Compare(x.at, y.at), cmp.Compare(x.which, y.which))
	})
}

// union returns the keys of both maps.
func union[K comparable, V, W any](a map[K]V, b map[K]W) map[K]bool {
	keys := make(map[K]bool, len(a)+len(b))
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}
