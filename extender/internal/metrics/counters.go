package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics counts what happens. Collector has the gauges, which are computed from the books.
type Metrics struct {
	*prometheus.Registry
	requests   *prometheus.HistogramVec
	refusals   *prometheus.CounterVec
	failures   *prometheus.CounterVec
	waits      *prometheus.HistogramVec
	changes    *prometheus.CounterVec
	events     *prometheus.CounterVec
	nudges     *prometheus.CounterVec
	unreadable *prometheus.CounterVec
}

// Labels are the values of labels that other packages define.
type Labels struct {
	Refusals, Failures, Changes []string
	Events, EventResults        []string
}

// New returns metrics in a registry of their own. Every series exists from the start, at 0: a counter that appears
// together with its first increment has no increase that Prometheus could see.
func New(l Labels) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	register := func(c prometheus.Collector) { m.MustRegister(c) }
	register(collectors.NewGoCollector())
	register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, label, help string, values []string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "phasegpu_" + name, Help: help}, []string{label})
		for _, value := range values {
			c.WithLabelValues(value)
		}
		register(c)
		return c
	}
	m.refusals = counter("filter_refused_nodes_total", "reason", "Nodes refused to pods, by reason.", l.Refusals)
	m.failures = counter("bind_failures_total", "reason",
		"Bindings that failed, by reason; kube-scheduler tries again.", l.Failures)
	m.changes = counter("reservation_changes_total", "change",
		"What became of pods' reservations: placed, released (an init container finished), raised (init containers "+
			"run again), overcommitted (raised, and what they need has gone to others), ended. "+
			"Counted by the extender that leads.",
		l.Changes)
	m.nudges = counter("nudges_total", "result",
		"Wake-up patches: nudged, gone (the pod was deleted), refused (for good), failed (tried again).",
		[]string{"nudged", "gone", "refused", "failed"})
	m.unreadable = counter("unreadable_objects_total", "kind",
		"Changes of objects that could not be read or accounted for, by kind.",
		[]string{"Pod", "Node", "ResourceQuota"})

	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phasegpu_events_total",
		Help: "Events on pods, by reason and result: recorded, dropped (too many in too short a time).",
	}, []string{"reason", "result"})
	for _, reason := range l.Events {
		for _, result := range l.EventResults {
			m.events.WithLabelValues(reason, result)
		}
	}
	register(m.events)

	m.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "phasegpu_gate_wait_seconds",
		Help:    "Waits of bindings for their turn on a node, by result: entered, gave_up.",
		Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 15},
	}, []string{"result"})
	m.waits.WithLabelValues("entered")
	m.waits.WithLabelValues("gave_up")
	register(m.waits)

	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "phasegpu_extender_request_duration_seconds",
		Help: "Calls by kube-scheduler, by result: ok, refused (no node fits, or none would), error, " +
			"bad_request, panic. A bind includes its wait in the gate.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
	}, []string{"verb", "result"})
	for _, verb := range []string{"filter", "prioritize", "preempt", "bind"} {
		for _, result := range []string{"ok", "error", "bad_request", "panic"} {
			m.requests.WithLabelValues(verb, result)
		}
	}
	m.requests.WithLabelValues("filter", "refused")
	m.requests.WithLabelValues("preempt", "refused")
	register(m.requests)
	return m
}

// Request counts a call by kube-scheduler.
func (m *Metrics) Request(verb, result string, d time.Duration) {
	m.requests.WithLabelValues(verb, result).Observe(d.Seconds())
}

// Refused counts nodes that Filter refused to a pod.
func (m *Metrics) Refused(reason string, nodes int) {
	m.refusals.WithLabelValues(reason).Add(float64(nodes))
}

// BindFailed counts a binding that failed.
func (m *Metrics) BindFailed(reason string) { m.failures.WithLabelValues(reason).Inc() }

// GateWaited counts a wait in a gate.
func (m *Metrics) GateWaited(d time.Duration, entered bool) {
	result := "gave_up"
	if entered {
		result = "entered"
	}
	m.waits.WithLabelValues(result).Observe(d.Seconds())
}

// ReservationChanged counts a change of a pod's reservation.
func (m *Metrics) ReservationChanged(change string) { m.changes.WithLabelValues(change).Inc() }

// Event counts an event on a pod.
func (m *Metrics) Event(reason, result string) { m.events.WithLabelValues(reason, result).Inc() }

// Nudged counts a wake-up patch.
func (m *Metrics) Nudged(result string) { m.nudges.WithLabelValues(result).Inc() }

// Unreadable counts a change of an object that could not be read.
func (m *Metrics) Unreadable(kind string) { m.unreadable.WithLabelValues(kind).Inc() }
