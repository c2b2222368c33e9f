package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are what is counted as it happens; what follows from the books is in package page.
type Metrics struct {
	Registry *prometheus.Registry
	requests *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	nudges   *prometheus.CounterVec
	problems *prometheus.CounterVec
}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_extender_request_duration_seconds", Help: "Calls by kube-scheduler. A bind includes its wait in the gate.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"verb", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_filter_refused_nodes_total", Help: "Nodes refused to pods, by reason.",
		}, []string{"reason"}),
		nudges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_nudges_total", Help: "Wake-up patches: nudged, gone (the pod was deleted), failed (tried again).",
		}, []string{"result"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_unreadable_objects_total", Help: "Changes of objects that could not be read or accounted for, by kind.",
		}, []string{"kind"}),
	}
	m.Registry.MustRegister(m.requests, m.refusals, m.nudges, m.problems,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) observe(verb, result string, start time.Time) {
	m.requests.WithLabelValues(verb, result).Observe(time.Since(start).Seconds())
}

// Refused counts nodes refused for a reason out of a small set.
func (m *Metrics) Refused(reason string, nodes int) {
	m.refusals.WithLabelValues(reason).Add(float64(nodes))
}

// Nudged counts a wake-up.
func (m *Metrics) Nudged(result string) { m.nudges.WithLabelValues(result).Inc() }

// Problem counts an object that could not be read.
func (m *Metrics) Problem(kind string) { m.problems.WithLabelValues(kind).Inc() }
