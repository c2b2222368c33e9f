package why

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Group is the nodes that refuse for one reason.
type Group struct {
	Reason  string   `json:"reason"`  // without numbers
	Passing bool     `json:"passing"` // it is what others hold, or a gate: it passes when they end or release
	Nodes   []string `json:"nodes"`   // those that come nearest first
	Nearest []Answer `json:"nearest"` // the first of them in detail
}

// Answer is what one node says, with numbers.
type Answer struct {
	Node       string      `json:"node"`
	Sentence   string      `json:"sentence"`
	Containers []Container `json:"containers"` // that find too few devices
	Holders    []Holder    `json:"holders"`    // of the advertised resource, when there is too little of it: until they end
}

// Container is a container that finds too few devices on a node.
type Container struct {
	Name    string   `json:"name"`
	Class   string   `json:"class"`
	Asks    string   `json:"asks"`
	Reason  string   `json:"reason"`
	Devices []Device `json:"devices"` // of the family asked for, in the node's order
}

// Device is what one device says to a container.
type Device struct {
	UUID     string    `json:"uuid"`
	Fits     bool      `json:"fits"`
	Reason   string    `json:"reason"` // "Fits" when it does
	Says     string    `json:"says"`   // the reason with numbers
	Asked    ui.Amount `json:"asked"`
	Capacity ui.Amount `json:"capacity"`
	Free     ui.Amount `json:"free"`   // what other pods leave; below zero where they hold more than there is
	Phases   []Phase   `json:"phases"` // those in which the container is alive
	Holders  []Holder  `json:"holders"`
}

// Phase is how a container fares on a device in one of the pod's phases.
type Phase struct {
	Name   string    `json:"name"` // an init container's, or steady
	Own    ui.Amount `json:"own"`  // what the pod's other containers take there
	Reason string    `json:"reason"`
}

// groups collects refusals by reason.
func (q *query) groups(refusals []fit.Refusal) []Group {
	var groups []Group
	at := map[string]int{}
	byReason := map[string][]fit.Refusal{}
	for _, r := range refusals {
		if _, known := at[r.Reason]; !known {
			at[r.Reason] = len(groups)
			groups = append(groups, Group{Reason: r.Reason, Passing: passes(&r), Nodes: []string{}, Nearest: []Answer{}})
		}
		byReason[r.Reason] = append(byReason[r.Reason], r)
	}
	for i := range groups {
		g := &groups[i]
		of := byReason[g.Reason]
		slices.SortStableFunc(of, func(x, y fit.Refusal) int { return cmp.Compare(missing(&x), missing(&y)) })
		for k := range of {
			g.Nodes = append(g.Nodes, of[k].Node)
			if k < q.Details {
				g.Nearest = append(g.Nearest, q.answer(&of[k]))
			}
		}
	}
	slices.SortStableFunc(groups, func(x, y Group) int { return cmp.Compare(rank(x), rank(y)) })
	return groups
}

func rank(g Group) int {
	if g.Passing {
		return 0
	}
	return 1
}

// passes reports whether a refusal is no more than what others hold, or a gate.
func passes(r *fit.Refusal) bool {
	return r.Reason == shut || r.Reason == deep || r.Count != nil && r.Count.Asked <= r.Count.Allocatable || r.Devices != nil && !r.Devices.Reason.Unresolvable()
}

// missing is how many MiB the device lacks that comes nearest to take the container that finds too few.
func missing(r *fit.Refusal) int64 {
	if r.Devices == nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for i := range r.Devices.Containers {
		c := &r.Devices.Containers[i]
		if c.Reason == placement.Fits {
			continue
		}
		for j := range c.Devices {
			d := &c.Devices[j]
			if d.Reason != placement.NoMemory {
				continue
			}
			for _, k := range d.Phases {
				least = min(least, max(0, d.Asked.MemoryMiB+k.Own.MemoryMiB+d.Held.MemoryMiB-d.Capacity.MemoryMiB))
			}
		}
	}
	return least
}

func (q *query) answer(r *fit.Refusal) Answer {
	a := Answer{Node: r.Node, Sentence: r.Sentence, Containers: []Container{}, Holders: []Holder{}}
	if r.Count != nil {
		a.Holders = q.counted(r.Node, r.Count.Resource)
	}
	if r.Devices == nil {
		return a
	}
	view := q.Cluster.View(r.Node)
	for i := range r.Devices.Containers {
		c := &r.Devices.Containers[i]
		if c.Reason == placement.Fits {
			continue
		}
		told := Container{Name: q.container(c.Position), Class: c.Class.String(), Asks: fit.Asks(c.Request), Reason: c.Reason.String(), Devices: []Device{}}
		for j := range c.Devices {
			if d := &c.Devices[j]; d.Reason != placement.OtherFamily {
				told.Devices = append(told.Devices, q.device(d, view))
			}
		}
		a.Containers = append(a.Containers, told)
	}
	return a
}

func (q *query) device(d *placement.DeviceReport, view *ledger.View) Device {
	told := Device{
		UUID: d.UUID, Fits: d.Reason == placement.Fits, Reason: d.Reason.String(), Says: fit.Words{Name: q.container, Selector: &q.asked.Selector, Devices: view.Devices}.Answer(d),
		Asked: ui.Amount(d.Asked), Capacity: ui.Amount(d.Capacity), Phases: []Phase{}, Holders: []Holder{},
		Free: ui.Amount{Slots: d.Capacity.Slots - d.Held.Slots, MemoryMiB: d.Capacity.MemoryMiB - d.Held.MemoryMiB, Cores: d.Capacity.Cores - d.Held.Cores},
	}
	for _, k := range d.Phases {
		name := explain.SteadyName
		if k.InitPosition >= 0 {
			name = q.container(k.InitPosition)
		}
		told.Phases = append(told.Phases, Phase{name, ui.Amount(k.Own), k.Reason.String()})
	}
	if !d.Reason.Unresolvable() {
		told.Holders = q.holders(view.Pods, onDevice(d.UUID))
	}
	return told
}

// counted returns who holds an advertised resource of a node: by Kubernetes' own count, until they end.
func (q *query) counted(node string, resource corev1.ResourceName) []Holder {
	return q.holdersBy(node, func(e *ledger.Entry) int64 {
		if pod := q.Cluster.Pod(e); pod != nil {
			return fit.Held(pod, resource)
		}
		return 0
	})
}

func (q *query) holdersBy(node string, count func(*ledger.Entry) int64) []Holder {
	holders := []Holder{}
	for _, e := range q.Cluster.View(node).Pods {
		if n := count(e); n > 0 {
			holders = append(holders, Holder{
				Namespace: e.Namespace, Name: e.Name, Holds: ui.Amount{Slots: n}, Kept: q.Cluster.Kept(e), Phase: q.phaseOf(e), Release: q.release(e).String(), Steps: []Step{},
			})
		}
	}
	slices.SortStableFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(y.Holds.Slots, x.Holds.Slots), cmp.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
	return holders
}

func (q *query) container(position int) string { return kube.Container(&q.Pod.Spec, position).Name }
