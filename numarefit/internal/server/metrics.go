package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// result is a request's outcome, as a metric's label: a closed set.
type result string

const (
	moved   result = "moved"
	kept    result = "kept" // the recorded devices were allowed
	refused result = "refused"
)

// Metrics counts requests.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers metrics. Every series exists from the start, at 0.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_numarefit_requests_total",
			Help: "Requests by result (moved, kept, refused) and, of those refused, reason.",
		}, []string{"result", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "phasegpu_numarefit_request_duration_seconds",
			Help:    "Time from a request's arrival to its response, by result.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 2.5},
		}, []string{"result"}),
	}
	r.MustRegister(m.requests, m.duration)
	for _, r := range []result{moved, kept, refused} {
		m.duration.WithLabelValues(string(r))
	}
	m.requests.WithLabelValues(string(moved), "")
	m.requests.WithLabelValues(string(kept), "")
	for _, f := range refit.Reasons() {
		m.requests.WithLabelValues(string(refused), string(f.Reason))
	}
	return m
}

func (m *Metrics) count(r result, reason refit.Reason) {
	m.requests.WithLabelValues(string(r), string(reason)).Inc()
}

func (m *Metrics) observe(r result, reason refit.Reason, took time.Duration) {
	m.count(r, reason)
	m.duration.WithLabelValues(string(r)).Observe(took.Seconds())
}
