package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	rules "github.com/phasegpu/phasegpu/gen/admission"
)

// result is what became of a request, as a metric's label: a closed set.
type result string

const (
	allowed result = "allowed" // as it is
	patched result = "patched"
	denied  result = "denied"
	failed  result = "error" // no AdmissionReview, or one about something else than a pod's creation
)

// Metrics counts what the handler answers.
type Metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

// NewMetrics registers the handler's metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phasegpu_webhook_admission_requests_total",
			Help: "Admission requests by result (allowed, patched, denied, error) and class of the reason.",
		}, []string{"result", "reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "phasegpu_webhook_admission_duration_seconds",
			Help:    "Time from a request's arrival to its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	r.MustRegister(m.requests, m.duration)
	// Every series exists from the start, at 0.
	for _, r := range []result{allowed, patched} {
		m.requests.WithLabelValues(string(r), string(notRefused))
	}
	for _, c := range append(rules.Reasons(), string(byQuota), string(byStart)) {
		m.requests.WithLabelValues(string(denied), c)
	}
	for _, c := range []class{byHTTP, byRule, byObject, byPanic} {
		m.requests.WithLabelValues(string(failed), string(c))
	}
	return m
}

func (m *Metrics) observe(r result, c class, took time.Duration) {
	m.requests.WithLabelValues(string(r), string(c)).Inc()
	m.duration.Observe(took.Seconds())
}
