package audit

import (
	"maps"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/extender/internal/page"
)

// books is what is compared: an extender's, or those that the API server's objects come to. A line that says
// nothing is as good as none.
type books struct {
	nodes      map[string]nodeLine
	devices    map[place]deviceLine
	namespaces map[account]device.Amount
	quotas     map[limit]quotaLine
	pods       map[string]podLine // by UID
}

type place struct{ node, uuid string }

type account struct{ namespace, family string }

type limit struct{ namespace, quota, resource string }

type nodeLine struct{ known, closed bool }

type deviceLine struct {
	listed bool // by the node; pods may hold what it does not list
	facts
	reserved  device.Amount
	exclusive bool
}

type facts struct {
	family            string
	index             int
	capacity          device.Amount
	healthy, cordoned bool
}

type quotaLine struct {
	family    string
	used, max int64
}

type podLine struct {
	namespace, name, node string
	from                  int
	held                  map[place]device.Amount
	charged               map[account]device.Amount
	problem, assumed      bool
}

func newBooks() *books {
	return &books{map[string]nodeLine{}, map[place]deviceLine{}, map[account]device.Amount{}, map[limit]quotaLine{}, map[string]podLine{}}
}

func newPodLine(namespace, name, node string, from int) podLine {
	return podLine{namespace, name, node, from, map[place]device.Amount{}, map[account]device.Amount{}, false, false}
}

// addPod adds a pod that holds anything.
func (b *books) addPod(uid string, p podLine) {
	if len(p.held) > 0 || len(p.charged) > 0 || p.problem {
		b.pods[uid] = p
	}
}

// same reports whether two lines of a pod say the same.
func (p *podLine) same(o *podLine) bool {
	return p.node == o.node && p.from == o.from && p.problem == o.problem && maps.Equal(p.held, o.held) && maps.Equal(p.charged, o.charged)
}

// read returns the books of an extender's page. What is assumed for pods that wait for their node is taken
// out: it is in no recomputation.
func read(l *page.Ledger, s *State) (*books, []Assumed) {
	b := newBooks()
	for _, n := range l.Nodes {
		b.nodes[n.Name] = nodeLine{known: n.Known, closed: n.Unreadable != ""}
		for _, d := range n.Devices {
			b.devices[place{n.Name, d.UUID}] = deviceLine{
				listed: true, facts: facts{d.Family, d.Index, device.Amount(d.Capacity), d.Healthy, d.Cordoned},
				reserved: device.Amount(d.Reserved), exclusive: d.Exclusive,
			}
		}
		for _, m := range n.Missing {
			b.devices[place{n.Name, m.UUID}] = deviceLine{reserved: device.Amount(m.Reserved)}
		}
	}
	for _, n := range l.Namespaces {
		for _, u := range n.Used {
			b.namespaces[account{n.Name, u.Family}] = amount(u)
		}
		for _, q := range n.Quotas {
			b.quotas[limit{n.Name, q.Quota, q.Resource}] = quotaLine{q.Family, q.Used, q.Max}
		}
	}
	var assumed []Assumed
	for _, n := range l.Nodes {
		for i := range n.Pods {
			if p := &n.Pods[i]; p.Assumed && s.pending(p.UID) {
				b.takeOut(&n, p, s)
				assumed = append(assumed, Assumed{p.Namespace, p.Name, n.Name, p.Devices})
				continue
			}
			b.addPage(n.Name, &n.Pods[i])
		}
	}
	return b, assumed
}

func (b *books) addPage(node string, p *page.Pod) {
	line := newPodLine(p.Namespace, p.Name, node, p.From)
	line.problem, line.assumed = p.Problem != "", p.Assumed
	for _, h := range p.Devices {
		at := place{node, h.UUID}
		line.held[at] = plus(line.held[at], device.Amount(h.Reserved))
	}
	for _, u := range p.Charged {
		line.charged[account{p.Namespace, u.Family}] = amount(u)
	}
	b.addPod(p.UID, line)
}

// takeOut subtracts an assumed pod from all sums that it is in.
func (b *books) takeOut(n *page.Node, p *page.Pod, s *State) {
	for _, h := range p.Devices {
		at := place{n.Name, h.UUID}
		d := b.devices[at]
		d.reserved = minus(d.reserved, device.Amount(h.Reserved))
		if h.Exclusive {
			d.exclusive = exclusive(n, h.UUID, s)
		}
		b.devices[at] = d
	}
	for _, u := range p.Charged {
		to := account{p.Namespace, u.Family}
		b.namespaces[to] = minus(b.namespaces[to], amount(u))
		for _, q := range s.quotas {
			for _, l := range q.Limits {
				key := limit{q.Namespace, q.Name, l.Resource}
				if line, ok := b.quotas[key]; ok && q.Namespace == p.Namespace && l.Family == u.Family {
					line.used -= s.counts(p.UID, &q, l, amount(u))
					b.quotas[key] = line
				}
			}
		}
	}
}

// exclusive reports whether a pod that is not taken out shares a device with nobody.
func exclusive(n *page.Node, uuid string, s *State) bool {
	for i := range n.Pods {
		p := &n.Pods[i]
		for _, h := range p.Devices {
			if h.UUID == uuid && h.Exclusive && !(p.Assumed && s.pending(p.UID)) {
				return true
			}
		}
	}
	return false
}

func amount(u page.Used) device.Amount {
	return device.Amount{Slots: u.Devices, MemoryMiB: u.MemoryMiB, Cores: u.Cores}
}
