// Package metrics is what the extender serves to Prometheus: counters of what happens, and gauges of the books.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// Collector serves the books as gauges, computed at each scrape: a series ends with its object, and no number can
// differ from the books.
type Collector struct {
	Book    *ledger.Book
	Gates   interface{ States() []gate.State }
	Requeue interface{ Waiting() int } // refused pods that will be tried again
	Lease   interface{ Leads() bool }
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("phasegpu_"+name, help, labels, nil)
}

var (
	leads = desc("extender_leads",
		"1 while the scheduler beside this extender is in office, so that it binds; else 0. "+
			"Counters of what happens to pods count only then.")
	unreadable = desc("node_unreadable",
		"1 for a node that takes no new pods because an inventory or an allocation there cannot be read.", "node")
	missing = desc("node_missing_devices",
		"Devices that pods on a node hold and the node does not list. Only nodes where it is above 0.", "node")
	quotaUsed = desc("quota_used",
		"What counts against a ResourceQuota's key, in the books' units: MiB for memory, percent for cores.",
		"namespace", "quota", "resource")
	quotaMax = desc("quota_limit",
		"A ResourceQuota's limit, in the books' units: MiB for memory, percent for cores.", "namespace", "quota",
		"resource")
	pods = desc("ledger_pods",
		"Pods in the books: bound, assumed (their binding is on its way), unreadable (bound, and may "+
			"hold more than they are charged).", "state")
	changes = desc("ledger_changes_total", "Changes of the books.")
	unknown = desc("ledger_unknown_releases_total", "Releases of pods that the books held nothing for.")
	late    = desc("ledger_late_facts_total", "Observations that were older than what the books knew.")
	broken  = desc("ledger_broken_sums_total", "Sums that would have left their range: a bug when above 0.")
	waiting = desc("gate_waiting_pods", "Pods that wait for their turn on a node. Only nodes whose gate is shut.",
		"node")
	shut = desc("gate_shut_seconds",
		"How long a node's gate has been shut: kubelet has not reported on the pod inside. "+
			"Only nodes whose gate is shut.",
		"node")
	refused = desc("refused_pods", "Refused pods that will be woken when there is room.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leads, unreadable, missing, quotaUsed, quotaMax, pods,
		changes, unknown, late, broken, waiting, shut, refused,
		capacity, reserved, steady, releasable, over, cores, slots, closed} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := series(out)
	states := map[string]int{"bound": 0, "assumed": 0, "unreadable": 0}
	for _, v := range c.Book.Nodes() {
		s.devices(v)
		if v.Unreadable != "" {
			s.gauge(unreadable, 1, v.Name)
		}
		if len(v.Missing) > 0 {
			s.gauge(missing, float64(len(v.Missing)), v.Name)
		}
		for _, e := range v.Pods {
			switch {
			case e.Assumed:
				states["assumed"]++
			case e.Problem != "":
				states["unreadable"]++
			default:
				states["bound"]++
			}
		}
	}
	for state, n := range states {
		s.gauge(pods, float64(n), state)
	}
	for _, n := range c.Book.Namespaces() {
		for _, u := range n.Usage() {
			s.gauge(quotaUsed, float64(u.Used), n.Name, u.Quota, u.Limit.Resource)
			s.gauge(quotaMax, float64(u.Limit.Max), n.Name, u.Quota, u.Limit.Resource)
		}
	}
	for _, g := range c.Gates.States() {
		s.gauge(waiting, float64(g.Waiting), g.Node)
		s.gauge(shut, g.Shut.Seconds(), g.Node)
	}
	stats := c.Book.Stats()
	s.counter(changes, c.Book.Generation())
	s.counter(unknown, stats.UnknownReleases)
	s.counter(late, stats.LateFacts)
	s.counter(broken, stats.Broken)
	s.gauge(refused, float64(c.Requeue.Waiting()))
	if c.Lease.Leads() {
		s.gauge(leads, 1)
	} else {
		s.gauge(leads, 0)
	}
}
