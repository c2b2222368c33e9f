package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Remedy is something that would make the pod fit, or one of several that have to come together: see the kind.
type Remedy struct {
	// Kind is end (of init containers, by themselves), delete (pods end), ask (for less), selector,
	// open (a node or a device takes pods again): any one of these makes room on a node. Of quota and quotaEnd one
	// is needed for each quota that is exceeded.
	Kind   string   `json:"kind"`
	Text   string   `json:"text"`
	Nodes  []string `json:"nodes"`  // on which it then fits, some of them
	Events []Event  `json:"events"` // that have to happen, all of them
	// MemoryMiB or Cores (percent) is the most that it may ask for, per device, when the kind is ask.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	Cores     int64 `json:"cores,omitempty"`
}

// Event is the end of an init container, or of a pod.
type Event struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"` // the init container, "" for the pod's own end
	Releases  []Release `json:"releases"`
}

// Release is what an event gives back of a device, or of a quota.
type Release struct {
	UUID     string `json:"uuid,omitempty"`
	Quota    string `json:"quota,omitempty"`
	Resource string `json:"resource,omitempty"` // one that kubelet advertises: the slots are its ids
	report.Amount
}

// maxWays is how many nodes, or ways, each kind of remedy names.
const maxWays = 3

// remedy returns a remedy without nodes and events.
func remedy(kind, format string, args ...any) Remedy {
	return Remedy{Kind: kind, Text: fmt.Sprintf(format, args...), Nodes: []string{}, Events: []Event{}}
}

func (q *query) remedies(r *Report) []Remedy {
	var all []Remedy
	for i := range r.Quotas {
		all = append(all, q.quotaRemedies(&r.Quotas[i])...)
	}
	nodes := len(r.Fits) == 0
	if nodes {
		ends := q.ends()
		if len(ends) == 0 {
			ends = q.deletions()
		}
		all = append(all, ends...)
	}
	if nodes || len(r.Quotas) > 0 {
		all = append(all, q.less()...)
	}
	if nodes {
		all = append(all, q.opened()...)
	}
	return all
}

// trial is the pod on the cluster as it is.
func (q *query) trial() fit.Trial { return fit.Trial{Pod: q.Pod, Request: q.request} }

// asking is the pod on the cluster as it is, if it asked for something else.
func (q *query) asking(p *placement.Pod) fit.Trial {
	request := *q.request
	request.Placement = p
	return fit.Trial{Pod: q.Pod, Request: &request}
}

// where returns the first nodes that pass and on which a trial fits.
func (q *query) where(t fit.Trial, pass func(*fit.Refusal) bool) []string {
	nodes := []string{}
	for _, node := range q.Cluster.NodeList() {
		if r := q.refused[node.Name]; r != nil && pass(r) && q.Cluster.Try(node, t) {
			if nodes = append(nodes, node.Name); len(nodes) == maxWays {
				break
			}
		}
	}
	return nodes
}

// byDevices passes nodes that take the pod but for their devices.
func byDevices(r *fit.Refusal) bool { return r.Devices != nil || r.Count != nil }

// less is the remedy of asking for less memory or, where that is not it, for fewer cores.
func (q *query) less() []Remedy {
	if len(q.Cluster.NodeList()) == 0 {
		return nil
	}
	for _, kind := range []capped{memory{q}, cores{}} {
		ceiling := int64(0)
		for i := range q.request.Placement.Requests {
			if r := &q.request.Placement.Requests[i]; r.Devices > 0 {
				ceiling = max(ceiling, kind.get(r))
			}
		}
		limit, nodes := q.most(ceiling, kind)
		if limit == 0 || limit >= ceiling {
			continue
		}
		var who []string
		for i, r := range q.request.Placement.Requests {
			if r.Devices > 0 && kind.get(&r) > limit {
				who = append(who, fmt.Sprintf("%s (now %s)", q.container(i), kind.words(&r)))
			}
		}
		r := remedy("ask", "ask for at most %s in %s: it then fits on %s",
			kind.amount(limit), render.And(who), strings.Join(nodes, ", "))
		r.Nodes = nodes
		kind.record(&r, limit)
		return []Remedy{r}
	}
	return nil
}

// most returns the largest cap on all containers, below the ceiling, with which the pod fits quotas and a node; 0
// when none does.
func (q *query) most(ceiling int64, kind capped) (int64, []string) {
	fits := func(limit int64) []string {
		smaller := *q.request.Placement
		smaller.Requests = slices.Clone(q.request.Placement.Requests)
		for i := range smaller.Requests {
			if r := &smaller.Requests[i]; r.Devices > 0 && kind.get(r) > limit {
				kind.limit(r, limit)
			}
		}
		if q.exceeds(&smaller) {
			return nil
		}
		t := q.asking(&smaller)
		for _, node := range q.Cluster.NodeList() {
			if r := q.refused[node.Name]; (r == nil || byDevices(r) || r.Reason == overQuota) &&
				q.Cluster.Try(node, t) {
				return []string{node.Name}
			}
		}
		return nil
	}
	least, most, where := int64(0), ceiling, []string(nil) // fits with least, not with most
	for most-least > 1 {
		middle := least + (most-least)/2
		if nodes := fits(middle); nodes != nil {
			least, where = middle, nodes
		} else {
			most = middle
		}
	}
	return least, where
}

// opened are the remedies of nodes and devices that take no pods, and of what the pod itself excludes.
func (q *query) opened() []Remedy {
	var all []Remedy
	try := func(kind, text string, t fit.Trial, pass func(*fit.Refusal) bool) {
		if nodes := q.where(t, pass); len(nodes) > 0 {
			r := remedy(kind, text, strings.Join(nodes, ", "))
			r.Nodes = nodes
			all = append(all, r)
		}
	}
	variant := func(change func(*placement.Pod)) fit.Trial {
		asked := *q.request.Placement
		change(&asked)
		return q.asking(&asked)
	}
	var keys []string
	for _, c := range podrequest.Clauses(&q.request.Placement.Selector) {
		keys = append(keys, c.Annotation)
	}
	if len(keys) > 0 {
		try("selector", "take away the pod's annotation "+render.And(keys)+": it then fits on %s",
			variant(func(p *placement.Pod) { p.Selector = placement.Selector{} }), byDevices)
	}
	if q.request.Placement.NUMABind {
		try("selector", "take away the pod's annotation "+wire.NUMABindAnnotation+": it then fits on %s",
			variant(func(p *placement.Pod) { p.NUMABind = false }), byDevices)
	}
	if q.request.Placement.StrictFamily != "" {
		try("selector", "take away the pod's annotation "+wire.NUMAAlignment+": strict: it then fits on %s",
			variant(func(p *placement.Pod) { p.StrictFamily = "" }), byDevices)
	}
	healthy, uncordoned, anywhere := q.trial(), q.trial(), q.trial()
	healthy.Device = func(d *device.Device) { d.Healthy = true }
	uncordoned.Device = func(d *device.Device) { d.Cordoned = false }
	anywhere.AnyNode = true
	try("open", "it fits on %s when the devices there are healthy and kubelet advertises them", healthy, byDevices)
	try("open", "it fits on %s when the devices there are no longer cordoned (annotation "+wire.CordonAnnotation+
		" of the node)", uncordoned, byDevices)
	try("open", "it would fit on %s, were it not for what is said of that above", anywhere, func(r *fit.Refusal) bool {
		return !byDevices(r) && !passes(r) && r.Reason != overQuota
	})
	return all
}

// exceeds reports whether what a pod would ask for exceeds a quota.
func (q *query) exceeds(asked *placement.Pod) bool {
	charges, err := charges(asked)
	if err != nil {
		return true
	}
	n := q.Cluster.Namespace(q.Pod.Namespace)
	return n != nil && len(n.Quotas) > 0 && len(q.shortages(charges)) > 0
}

// capped is a dimension of requests that is capped.
type capped interface {
	get(*device.Request) int64
	limit(r *device.Request, at int64)
	record(r *Remedy, limit int64)
	amount(int64) string
	words(*device.Request) string
}

// memory caps memory, per device. A percentage, or a whole card, is what it comes to on the largest device.
type memory struct{ q *query }

func (m memory) get(r *device.Request) int64 {
	if r.MemoryMiB > 0 && r.MemoryPercent == 0 {
		return r.MemoryMiB
	}
	largest := int64(0)
	for _, node := range m.q.Cluster.NodeList() {
		for _, d := range m.q.Cluster.View(node.Name).Devices {
			if d.Family == r.Family {
				largest = max(largest, r.On(d.Capacity.MemoryMiB).MemoryMiB)
			}
		}
	}
	return largest
}

func (memory) limit(r *device.Request, at int64) { r.MemoryMiB, r.MemoryPercent = at, 0 }
func (memory) record(r *Remedy, limit int64)     { r.MemoryMiB = limit }
func (memory) amount(n int64) string             { return fmt.Sprintf("%d MiB per device", n) }
func (memory) words(r *device.Request) string {
	switch {
	case r.MemoryPercent > 0:
		return fmt.Sprintf("%d %% of a card", r.MemoryPercent)
	case r.MemoryMiB == 0:
		return "the whole card"
	}
	return fmt.Sprint(r.MemoryMiB)
}

// cores caps compute, percent of each device.
type cores struct{}

func (cores) get(r *device.Request) int64       { return r.Cores }
func (cores) limit(r *device.Request, at int64) { r.Cores = at }
func (cores) record(r *Remedy, limit int64)     { r.Cores = limit }
func (cores) amount(n int64) string             { return fmt.Sprintf("%d %% of each device's cores", n) }
func (cores) words(r *device.Request) string    { return fmt.Sprintf("%d %%", r.Cores) }

// sorted returns entries by how much memory they hold, least first.
func sorted(entries []*ledger.Entry) []*ledger.Entry {
	entries = slices.Clone(entries)
	sum := func(e *ledger.Entry) (total int64) {
		for _, h := range e.Reserved.Devices {
			total += h.MemoryMiB
		}
		return total
	}
	slices.SortStableFunc(entries, func(x, y *ledger.Entry) int {
		return cmp.Or(cmp.Compare(sum(x), sum(y)), strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
	return entries
}
