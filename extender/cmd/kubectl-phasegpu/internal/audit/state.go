package audit

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// State is what the API server has, as far as the books need it.
type State struct {
	release phase.Release
	nodes   map[string]ledger.Node
	quotas  map[string][]ledger.Quota // by namespace
	pods    map[string]pod            // by UID
	notes   []Note
}

// pod is a pod with devices, with a node or without.
type pod struct {
	ledger.Pod
	phases []string // names, by index
}

// NewState returns one without objects. Release is the policy of pods that name none.
func NewState(release phase.Release) *State {
	return &State{
		release: release, nodes: map[string]ledger.Node{}, quotas: map[string][]ledger.Quota{}, pods: map[string]pod{},
	}
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
	s.quotas[quota.Namespace] = append(s.quotas[quota.Namespace], truth)
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
		phases[k] = report.PhaseName(&p.Spec, truth.Classes, k)
	}
	s.pods[truth.UID] = pod{truth, phases}
}

func (s *State) note(object, text string) { s.notes = append(s.notes, Note{object, text}) }

// Notes returns what there is to say of the objects: what cannot be read or accounted for, and devices on
// which more is reserved than they have.
func (s *State) Notes() []Note {
	notes := slices.Clone(s.notes)
	for k, d := range s.books().lines {
		if k.kind == deviceKind && d.known && !d.Within(d.capacity) {
			notes = append(notes, Note{"Device " + k.at + " on node " + k.of,
				fmt.Sprintf("has %s and %s are reserved: "+
					"containers ran again after their memory went to others, or the device shrank",
					parts(d.capacity, "%d"), parts(d.Amount, "%d"))})
		}
	}
	slices.SortFunc(notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Object, y.Object), cmp.Compare(x.Note, y.Note))
	})
	return notes
}

// pending reports whether a pod is there and has no node yet.
func (s *State) pending(uid string) bool {
	p, ok := s.pods[uid]
	return ok && p.Node == "" && p.First != phase.None
}

// books computes what the books must be, pod by pod and from nothing else.
func (s *State) books() *books {
	b := newBooks()
	for uid, p := range s.pods {
		if p.Node != "" && p.First != phase.None {
			b.addPod(s, uid, recomputed(&p.Pod))
		}
	}
	for name, n := range s.nodes {
		b.lines[key{nodeKind, name, "", ""}] = line{facts: facts{known: true, closed: n.Unreadable != ""}}
		for _, d := range n.Devices {
			b.lines[key{deviceKind, name, d.UUID, ""}] = line{facts: facts{
				known: true, family: d.Family, index: d.Index, capacity: d.Capacity, healthy: d.Healthy, cordoned: d.Cordoned,
			}}
		}
	}
	for namespace := range s.quotas {
		s.eachLimit(namespace, func(k key, _ *ledger.Quota, l ledger.Limit) {
			b.lines[k] = line{facts: facts{known: true, limit: l}}
		})
	}
	for k, sum := range b.sum() {
		if k.kind != nodeKind {
			b.lines[k] = line{b.lines[k].facts, sum}
		}
	}
	return b
}

// recomputed returns what a bound, live pod must be charged.
func recomputed(p *ledger.Pod) podLine {
	reserved, err := p.Classes.Reserved(p.Allocation, p.First)
	pod := podLine{
		namespace: p.Namespace, name: p.Name, node: p.Node, from: p.First, problem: p.Unreadable != "" || err != nil,
		parts: map[key]part{},
	}
	for _, h := range reserved.Devices {
		pod.add(key{deviceKind, p.Node, h.UUID, ""}, part{Usage: h.Usage})
	}
	for _, t := range reserved.Totals {
		pod.add(key{namespaceKind, p.Namespace, t.Family, ""}, part{Usage: device.Usage{Amount: t.Amount()}})
	}
	return pod
}

// eachLimit calls f with every line of every quota of a namespace.
func (s *State) eachLimit(namespace string, f func(key, *ledger.Quota, ledger.Limit)) {
	for i := range s.quotas[namespace] {
		q := &s.quotas[namespace][i]
		for _, l := range q.Limits {
			f(key{quotaKind, q.Namespace, q.Name, l.Resource}, q, l)
		}
	}
}

// counts is what a pod's charge counts against a limit. Of a pod that is gone it is not known whether a quota
// with scopes selects it, so it counts.
func (s *State) counts(uid string, q *ledger.Quota, l ledger.Limit, charge device.Amount) int64 {
	switch p, ok := s.pods[uid]; {
	case ok && !q.Counts(p.Scope):
		return 0
	case l.Dimension == ledger.Cores:
		return charge.Cores
	default:
		return charge.MemoryMiB
	}
}
