package audit

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// State is what the API server has, as far as the books need it.
type State struct {
	release phase.Release
	nodes   map[string]ledger.Node
	quotas  []ledger.Quota
	pods    map[string]pod // by UID
	notes   []Note
}

// pod is a pod with devices, with a node or without.
type pod struct {
	ledger.Pod
	phases []string // names, by index
}

// NewState returns one without objects. Release is the policy of pods that name none.
func NewState(release phase.Release) *State {
	return &State{release: release, nodes: map[string]ledger.Node{}, pods: map[string]pod{}}
}

// AddNode adds a node.
func (s *State) AddNode(node *corev1.Node) {
	truth := kube.Node(node)
	if err := kube.NodeProblem(&truth); err != nil {
		s.note("Node "+node.Name, err.Error())
	}
	s.nodes[node.Name] = truth
}

// AddQuota adds a ResourceQuota.
func (s *State) AddQuota(quota *corev1.ResourceQuota) {
	truth, err := kube.Quota(quota)
	if err != nil {
		s.note("ResourceQuota "+quota.Namespace+"/"+quota.Name, err.Error())
	}
	s.quotas = append(s.quotas, truth)
}

// AddPod adds a pod, if it has devices.
func (s *State) AddPod(p *corev1.Pod) {
	if !kube.Tracked(p) {
		return
	}
	truth := kube.LedgerPod(p, s.release)
	if truth.Node != "" {
		if err := kube.PodProblem(p, &truth, s.release); err != nil {
			s.note("Pod "+p.Namespace+"/"+p.Name, err.Error())
		}
	}
	phases := make([]string, truth.Classes.Len())
	for k := range phases {
		phases[k] = "steady"
		if turn := truth.Classes.InitPosition(k); turn >= 0 {
			phases[k] = kube.Container(&p.Spec, turn).Name
		}
	}
	s.pods[truth.UID] = pod{truth, phases}
}

func (s *State) note(object, text string) { s.notes = append(s.notes, Note{object, text}) }

// Notes returns what there is to say of the objects: what cannot be read or accounted for, and devices on
// which more is reserved than they have.
func (s *State) Notes() []Note {
	notes := slices.Clone(s.notes)
	b := s.books()
	for at, d := range b.devices {
		if d.listed && !d.reserved.Within(d.capacity) {
			notes = append(notes, Note{"Device " + at.uuid + " on node " + at.node,
				fmt.Sprintf("has %s and %s are reserved: containers ran again after their memory went to others, or the device shrank", parts(d.capacity), parts(d.reserved))})
		}
	}
	slices.SortFunc(notes, func(x, y Note) int { return cmp.Or(cmp.Compare(x.Object, y.Object), cmp.Compare(x.Note, y.Note)) })
	return notes
}

// pending reports whether a pod is there and has no node yet.
func (s *State) pending(uid string) bool {
	p, ok := s.pods[uid]
	return ok && p.Node == "" && p.First != phase.None
}

// books works out what the books must be, pod by pod and from nothing else.
func (s *State) books() *books {
	b := newBooks()
	for name, n := range s.nodes {
		b.nodes[name] = nodeLine{known: true, closed: n.Unreadable != ""}
		for _, d := range n.Devices {
			b.devices[place{name, d.UUID}] = deviceLine{listed: true, facts: facts{d.Family, d.Index, d.Capacity, d.Healthy, d.Cordoned}}
		}
	}
	for _, p := range s.pods {
		if p.Node != "" && p.First != phase.None {
			b.add(&p.Pod)
		}
	}
	for _, q := range s.quotas {
		for _, l := range q.Limits {
			b.quotas[limit{q.Namespace, q.Name, l.Resource}] = quotaLine{family: l.Family, max: l.Max, used: s.used(b, &q, l)}
		}
	}
	return b
}

// add charges a bound, live pod.
func (b *books) add(p *ledger.Pod) {
	line := newPodLine(p.Namespace, p.Name, p.Node, p.First)
	reserved, err := p.Classes.Reserved(p.Allocation, p.First)
	if p.Unreadable != "" || err != nil {
		line.problem = true
		node := b.nodes[p.Node]
		node.closed = true
		b.nodes[p.Node] = node
	}
	for _, h := range reserved.Devices {
		at := place{p.Node, h.UUID}
		line.held[at] = plus(line.held[at], h.Amount)
		d := b.devices[at]
		d.reserved, d.exclusive = plus(d.reserved, h.Amount), d.exclusive || h.Exclusive
		b.devices[at] = d
	}
	for _, t := range reserved.Totals {
		to := account{p.Namespace, t.Family}
		line.charged[to] = t.Amount
		b.namespaces[to] = plus(b.namespaces[to], t.Amount)
	}
	b.addPod(p.UID, line)
}

// used is what counts against a limit of a quota: what the pods that it selects are charged.
func (s *State) used(b *books, q *ledger.Quota, l ledger.Limit) int64 {
	used := int64(0)
	for uid, p := range b.pods {
		if p.namespace == q.Namespace {
			used += s.counts(uid, q, l, p.charged[account{q.Namespace, l.Family}])
		}
	}
	return used
}

// counts is what a pod's charge counts against a limit.
func (s *State) counts(uid string, q *ledger.Quota, l ledger.Limit, charge device.Amount) int64 {
	switch p, ok := s.pods[uid]; {
	case !ok || q.Selects != nil && !q.Selects(p.Scope):
		return 0
	case l.Dimension == ledger.Cores:
		return charge.Cores
	default:
		return charge.MemoryMiB
	}
}
