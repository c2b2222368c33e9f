package audit

import (
	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
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

// nodeLine is closed when the node takes no new pods, whether for its inventory or for its pods' sake.
type nodeLine struct{ known, closed bool }

type deviceLine struct {
	listed bool // by the node; pods may hold what it does not list
	facts
	held device.Usage
}

type facts struct {
	family            string
	index             int
	capacity          device.Amount
	healthy, cordoned bool
}

type quotaLine struct {
	ledger.Limit
	used int64
}

type podLine struct {
	namespace, name, node string
	from                  int // the first phase that is charged
	held                  map[place]device.Usage
	charged               map[account]device.Amount
	problem, assumed      bool
}

func newBooks() *books {
	return &books{
		map[string]nodeLine{}, map[place]deviceLine{}, map[account]device.Amount{}, map[limit]quotaLine{},
		map[string]podLine{},
	}
}

// addPod adds a pod that holds anything.
func (b *books) addPod(uid string, p podLine) {
	if len(p.held) > 0 || len(p.charged) > 0 || p.problem {
		b.pods[uid] = p
	}
}

// own returns what the pods of books come to: what their lines must say, had every pod its due.
func (b *books) own(s *State) *books {
	own := newBooks()
	for uid, p := range b.pods {
		own.sum(&p)
		if p.problem {
			own.nodes[p.node] = nodeLine{closed: true}
		}
		s.eachLimit(p.namespace, func(at limit, q *ledger.Quota, l ledger.Limit) {
			line := own.quotas[at]
			line.used += s.counts(uid, q, l, p.charged[account{p.namespace, l.Family}])
			own.quotas[at] = line
		})
	}
	return own
}

// sum adds what a pod holds and is charged to the lines of devices and namespaces.
func (b *books) sum(p *podLine) {
	for at, held := range p.held {
		d := b.devices[at]
		d.held = device.Usage{Amount: plus(d.held.Amount, held.Amount), Exclusive: d.held.Exclusive || held.Exclusive}
		b.devices[at] = d
	}
	for to, charge := range p.charged {
		b.namespaces[to] = plus(b.namespaces[to], charge)
	}
}

// read returns the books of an extender's page as they are. What is assumed for pods that wait for their node
// is not among the pods but apart: it is in no recomputation.
func read(l *ui.Ledger, s *State) (all, apart *books, assumed []Assumed) {
	b, apart := newBooks(), newBooks()
	for _, n := range l.Nodes {
		b.nodes[n.Name] = nodeLine{known: n.Known, closed: n.Unreadable != ""}
		for _, d := range n.Devices {
			b.devices[place{n.Name, d.UUID}] = deviceLine{
				listed: true, facts: facts{d.Family, d.Index, device.Amount(d.Capacity), d.Healthy, d.Cordoned},
				held: device.Usage{Amount: device.Amount(d.Reserved), Exclusive: d.Exclusive},
			}
		}
		for _, m := range n.Missing {
			b.devices[place{n.Name, m.UUID}] = deviceLine{held: device.Usage{Amount: device.Amount(m.Reserved)}}
		}
		for i := range n.Pods {
			p := &n.Pods[i]
			if line := fromPage(n.Name, p); p.Assumed && s.pending(p.UID) {
				apart.addPod(p.UID, line)
				assumed = append(assumed, Assumed{p.Namespace, p.Name, n.Name, p.Devices})
			} else {
				b.addPod(p.UID, line)
			}
		}
	}
	for _, n := range l.Namespaces {
		for _, u := range n.Used {
			b.namespaces[account{n.Name, u.Family}] = amount(u)
		}
		for _, q := range n.Quotas {
			b.quotas[limit{n.Name, q.Quota, q.Resource}] = quotaLine{ledger.Limit{Family: q.Family, Max: q.Max}, q.Used}
		}
	}
	return b, apart, assumed
}

func fromPage(node string, p *ui.Pod) podLine {
	line := podLine{
		namespace: p.Namespace, name: p.Name, node: node, from: p.From, problem: p.Problem != "", assumed: p.Assumed,
		held: map[place]device.Usage{}, charged: map[account]device.Amount{},
	}
	for _, h := range p.Devices {
		line.hold(place{node, h.UUID}, device.Usage{Amount: device.Amount(h.Reserved), Exclusive: h.Exclusive})
	}
	for _, u := range p.Charged {
		line.charged[account{p.Namespace, u.Family}] = amount(u)
	}
	return line
}

// hold adds what a pod holds of a device.
func (p *podLine) hold(at place, u device.Usage) {
	held := p.held[at]
	p.held[at] = device.Usage{Amount: plus(held.Amount, u.Amount), Exclusive: held.Exclusive || u.Exclusive}
}

func amount(u ui.Used) device.Amount {
	return device.Amount{Slots: u.Devices, MemoryMiB: u.MemoryMiB, Cores: u.Cores}
}
