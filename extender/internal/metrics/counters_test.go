package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Counting adds no series to those that exist from the start, whose names follow Prometheus' conventions.
func TestCounters(t *testing.T) {
	m := New(Labels{
		Refusals: []string{"full"}, Failures: []string{"gate"}, Changes: []string{"placed"},
		Events: []string{"GPUPlaced"}, EventResults: []string{"recorded"},
	})
	lint(t, m)
	ours := []string{
		"phasegpu_extender_request_duration_seconds", "phasegpu_filter_refused_nodes_total",
		"phasegpu_bind_failures_total",
		"phasegpu_gate_wait_seconds", "phasegpu_reservation_changes_total", "phasegpu_events_total",
		"phasegpu_nudges_total",
		"phasegpu_unreadable_objects_total",
	}
	before, err := testutil.GatherAndCount(m, ours...)
	if err != nil {
		t.Fatal(err)
	}
	m.Request("filter", "refused", time.Second)
	m.Request("bind", "error", time.Second)
	m.Refused("full", 3)
	m.BindFailed("gate")
	m.GateWaited(time.Second, true)
	m.GateWaited(time.Second, false)
	m.ReservationChanged("placed")
	m.Event("GPUPlaced", "recorded")
	for _, result := range []string{"nudged", "gone", "refused", "failed"} {
		m.Nudged(result)
	}
	for _, kind := range []string{"Pod", "Node", "ResourceQuota"} {
		m.Unreadable(kind)
	}
	if after, err := testutil.GatherAndCount(m, ours...); after != before || err != nil {
		t.Errorf("%d series, before %d, %v", after, before, err)
	}
	if n := testutil.ToFloat64(m.refusals.WithLabelValues("full")); n != 3 {
		t.Errorf("%v refusals are counted, want 3", n)
	}
}
