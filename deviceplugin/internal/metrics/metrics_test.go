package metrics

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
)

func newMetrics() (*Metrics, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return New(registry), registry
}

func TestNamesFollowPrometheus(t *testing.T) {
	m, registry := newMetrics()
	ObserveRefit(nil, m, zap.NewNop())
	m.Devices([]device.Device{{UUID: "GPU-0"}})
	m.Drift(allocate.Drift{})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// uuids returns the devices that have series.
func uuids(t *testing.T, registry *prometheus.Registry) (found []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetName() == "uuid" && !slices.Contains(found, l.GetValue()) {
					found = append(found, l.GetValue())
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// The series of a card end with it, and an XID of an unlisted card begins none.
func TestSeriesEndWithTheirDevice(t *testing.T) {
	m, registry := newMetrics()
	m.Devices([]device.Device{{UUID: "GPU-0"}, {UUID: "GPU-1"}})
	m.XID("GPU-1", 79, true)
	m.XID("GPU-2", 79, true)
	if diff := cmp.Diff([]string{"GPU-0", "GPU-1"}, uuids(t, registry)); diff != "" {
		t.Error(diff)
	}
	if n, last := testutil.ToFloat64(m.xids.WithLabelValues("GPU-1", "true")),
		testutil.ToFloat64(m.lastXID.WithLabelValues("GPU-1")); n != 1 || last != 79 {
		t.Errorf("%v XIDs, the last %v", n, last)
	}
	m.Devices([]device.Device{{UUID: "GPU-0"}})
	m.XID("GPU-1", 79, true)
	if diff := cmp.Diff([]string{"GPU-0"}, uuids(t, registry)); diff != "" {
		t.Error(diff)
	}
}

// Unknown drift has no series.
func TestDriftUnknown(t *testing.T) {
	m, _ := newMetrics()
	m.Drift(allocate.Drift{Gone: 2})
	if n := testutil.CollectAndCount(m.drift); n != 5 {
		t.Errorf("%d kinds of drift", n)
	}
	m.DriftUnknown()
	if n, problems := testutil.CollectAndCount(m.drift),
		testutil.ToFloat64(m.problems.WithLabelValues("drift")); n != 0 || problems != 1 {
		t.Errorf("%d kinds of drift are shown, %v problems counted", n, problems)
	}
}
