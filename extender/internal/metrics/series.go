package metrics

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// series is where a scrape's values go.
type series chan<- prometheus.Metric

// gauge gives one. A label that is not UTF-8 costs its own series, not the scrape.
func (s series) gauge(d *prometheus.Desc, value float64, labels ...string) {
	if m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...); err == nil {
		s <- m
	}
}

func (s series) counter(d *prometheus.Desc, value uint64) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
}

// card gives the gauges of one device. They share their labels: there may be tens of thousands of devices,
// and a scrape runs beside Filter on the same processors.
type card struct {
	series
	labels []*dto.LabelPair // node and uuid
}

// card returns where the gauges of a device go, false when its UUID is not UTF-8.
func (s series) card(node, uuid string) (card, bool) {
	pair := func(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
	return card{s, []*dto.LabelPair{pair("node", node), pair("uuid", uuid)}}, utf8.ValidString(uuid)
}

func (c card) gauge(of *prometheus.Desc, value float64) { c.series <- &sample{of, value, c.labels} }

// sample is a gauge's value.
type sample struct {
	desc   *prometheus.Desc
	value  float64
	labels []*dto.LabelPair // sorted by name
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(m *dto.Metric) error {
	m.Label, m.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}
