package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are what is counted as it happens; what follows from the books is in package metrics.
type Metrics struct {
	Registry *prometheus.Registry
	requests *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	failures *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	changes  *prometheus.CounterVec
	events   *prometheus.CounterVec
	nudges   *prometheus.CounterVec
	problems *prometheus.CounterVec
}

// Labels are the values that labels can have and that other packages know.
type Labels struct {
	Refusals, Failures, Changes []string
	Events, EventResults        []string
}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "phasegpu_" + name, Help: help}, labels)
	}
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_extender_request_duration_seconds", Help: "Calls by kube-scheduler, by result: ok, refused (no node fits, or none would), error, bad_request, panic. A bind includes its wait in the gate.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"verb", "result"}),
		refusals: counter("filter_refused_nodes_total", "Nodes refused to pods, by reason.", "reason"),
		failures: counter("bind_failures_total", "Bindings that failed, by reason; kube-scheduler tries again.", "reason"),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_gate_wait_seconds", Help: "Waits of bindings for their turn on a node, by result: entered, gave_up.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"result"}),
		changes:  counter("reservation_changes_total", "What became of pods' reservations: placed, released (an init container finished), raised (init containers run again), overcommitted (raised, and what they need has gone to others), ended. Counted by the extender that leads.", "change"),
		events:   counter("events_total", "Events on pods, by reason and result: recorded, dropped (too many in too short a time).", "reason", "result"),
		nudges:   counter("nudges_total", "Wake-up patches: nudged, gone (the pod was deleted), refused (for good), failed (tried again).", "result"),
		problems: counter("unreadable_objects_total", "Changes of objects that could not be read or accounted for, by kind.", "kind"),
	}
	m.Registry.MustRegister(m.requests, m.refusals, m.failures, m.waits, m.changes, m.events, m.nudges, m.problems,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Begin has all that can be counted there from the start, at 0: a counter that appears with what it counts
// first has no increase to be seen.
func (m *Metrics) Begin(l Labels) {
	for _, verb := range []string{"filter", "prioritize", "preempt", "bind"} {
		for _, result := range []string{"ok", "error", "bad_request", "panic"} {
			m.requests.WithLabelValues(verb, result)
		}
	}
	for _, verb := range []string{"filter", "preempt"} {
		m.requests.WithLabelValues(verb, "refused")
	}
	for _, result := range []string{"entered", "gave_up"} {
		m.waits.WithLabelValues(result)
	}
	for _, result := range []string{"nudged", "gone", "refused", "failed"} {
		m.nudges.WithLabelValues(result)
	}
	for _, kind := range []string{"Pod", "Node", "ResourceQuota"} {
		m.problems.WithLabelValues(kind)
	}
	for vec, values := range map[*prometheus.CounterVec][]string{m.refusals: l.Refusals, m.failures: l.Failures, m.changes: l.Changes} {
		for _, value := range values {
			vec.WithLabelValues(value)
		}
	}
	for _, reason := range l.Events {
		for _, result := range l.EventResults {
			m.events.WithLabelValues(reason, result)
		}
	}
}

func (m *Metrics) observe(verb, result string, start time.Time) {
	m.requests.WithLabelValues(verb, result).Observe(time.Since(start).Seconds())
}

// Refused counts nodes refused for a reason out of a small set.
func (m *Metrics) Refused(reason string, nodes int) {
	m.refusals.WithLabelValues(reason).Add(float64(nodes))
}

// Failed counts a binding that failed.
func (m *Metrics) Failed(reason string) { m.failures.WithLabelValues(reason).Inc() }

// Waited counts a wait in a gate.
func (m *Metrics) Waited(d time.Duration, entered bool) {
	result := "gave_up"
	if entered {
		result = "entered"
	}
	m.waits.WithLabelValues(result).Observe(d.Seconds())
}

// Changed counts what became of a reservation.
func (m *Metrics) Changed(change string) { m.changes.WithLabelValues(change).Inc() }

// Told counts an event.
func (m *Metrics) Told(reason, result string) { m.events.WithLabelValues(reason, result).Inc() }

// Nudged counts a wake-up.
func (m *Metrics) Nudged(result string) { m.nudges.WithLabelValues(result).Inc() }

// Problem counts an object that could not be read.
func (m *Metrics) Problem(kind string) { m.problems.WithLabelValues(kind).Inc() }
