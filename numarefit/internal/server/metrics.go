package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// result is what became of a question, as a metric's label: a closed set.
type result string

const (
	moved   result = "moved"
	kept    result = "kept" // the recorded devices were allowed
	refused result = "refused"
)

// Metrics counts questions.
type Metrics struct {
	Registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics returns metrics in a registry of their own, with those of the process and the certificate.
func NewMetrics(c *Certificate) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_numarefit_requests_total",
			Help: "Questions by result (moved, kept, refused) and, of those refused, reason.",
		}, []string{"result", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "phasegpu_numarefit_request_duration_seconds",
			Help:    "Time from a question's arrival to its answer, by result.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 2.5},
		}, []string{"result"}),
	}
	m.Registry.MustRegister(m.requests, m.duration,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "phasegpu_numarefit_certificate_expiry_timestamp_seconds",
			Help: "Unix time at which the serving certificate expires, 0 without one.",
		}, c.expiry),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// All that can be counted is there from the start, at 0.
	for _, r := range []result{moved, kept} {
		m.requests.WithLabelValues(string(r), "")
	}
	for _, r := range []result{moved, kept, refused} {
		m.duration.WithLabelValues(string(r))
	}
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
