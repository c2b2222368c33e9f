// Package gauge serves the books as Prometheus gauges.
package gauge

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// Collector serves the books as gauges, computed from them at each scrape, so that a series ends with its
// object and no number can differ from the books.
type Collector struct {
	Book    *ledger.Book
	Gates   func() []gate.State
	Waiting func() int // refused pods that are remembered
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("phasegpu_"+name, help, labels, nil)
}

var (
	capacityMiB = desc("device_capacity_mebibytes", "Memory of a device.", "node", "uuid")
	reservedMiB = desc("device_reserved_mebibytes", "Memory that the remaining phases of a device's pods can use.", "node", "uuid")
	overMiB     = desc("device_overcommitted_mebibytes", "Memory reserved beyond a device's own: containers ran again after it went to others. Only devices where it is above 0.", "node", "uuid")
	cores       = desc("device_reserved_cores_percent", "Compute that the remaining phases of a device's pods can use.", "node", "uuid")
	slots       = desc("device_reserved_slots", "Replicas that the remaining phases of a device's pods can use.", "node", "uuid")
	unreadable  = desc("node_unreadable", "1 for a node that takes no new pods because an inventory or an allocation there cannot be read.", "node")
	quotaUsed   = desc("quota_used", "What counts against a ResourceQuota's key, in MiB for memory and percent for cores.", "namespace", "quota", "resource")
	quotaMax    = desc("quota_limit", "A ResourceQuota's limit, in MiB for memory and percent for cores.", "namespace", "quota", "resource")
	generation  = desc("ledger_generation", "Changes of the books since the start.")
	unknown     = desc("ledger_unknown_releases_total", "Releases of pods that the books held nothing for.")
	late        = desc("ledger_late_facts_total", "Observations that were older than what the books knew.")
	broken      = desc("ledger_broken_sums_total", "Sums that would have left their range: a bug when above 0.")
	waiting     = desc("gate_waiting_pods", "Pods that wait for their turn on a node. Only nodes whose gate is shut.", "node")
	shut        = desc("gate_shut_seconds", "How long a node's gate has been shut: kubelet has not reported on the pod inside.", "node")
	refused     = desc("refused_pods", "Refused pods that will be woken when there is room.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{capacityMiB, reservedMiB, overMiB, cores, slots, unreadable, quotaUsed, quotaMax,
		generation, unknown, late, broken, waiting, shut, refused} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		// A label that is not UTF-8 costs its own series, not the scrape.
		if m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...); err == nil {
			out <- m
		}
	}
	for _, v := range c.Book.Nodes() {
		for i, d := range v.Devices {
			held := v.Held[i]
			gauge(capacityMiB, float64(d.Capacity.MemoryMiB), v.Name, d.UUID)
			gauge(reservedMiB, float64(held.MemoryMiB), v.Name, d.UUID)
			gauge(cores, float64(held.Cores), v.Name, d.UUID)
			gauge(slots, float64(held.Slots), v.Name, d.UUID)
			if over := held.MemoryMiB - d.Capacity.MemoryMiB; over > 0 {
				gauge(overMiB, float64(over), v.Name, d.UUID)
			}
		}
		if v.Unreadable != "" {
			gauge(unreadable, 1, v.Name)
		}
	}
	for _, n := range c.Book.Namespaces() {
		for _, u := range n.Usage() {
			gauge(quotaUsed, float64(u.Used), n.Name, u.Quota, u.Limit.Resource)
			gauge(quotaMax, float64(u.Limit.Max), n.Name, u.Quota, u.Limit.Resource)
		}
	}
	for _, s := range c.Gates() {
		gauge(waiting, float64(s.Waiting), s.Node)
		gauge(shut, s.Shut.Seconds(), s.Node)
	}
	stats := c.Book.Stats()
	out <- prometheus.MustNewConstMetric(unknown, prometheus.CounterValue, float64(stats.UnknownReleases))
	out <- prometheus.MustNewConstMetric(late, prometheus.CounterValue, float64(stats.LateFacts))
	out <- prometheus.MustNewConstMetric(broken, prometheus.CounterValue, float64(stats.Broken))
	gauge(generation, float64(c.Book.Generation()))
	gauge(refused, float64(c.Waiting()))
}
