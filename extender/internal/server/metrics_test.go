package server

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestNamesFollowPrometheus(t *testing.T) {
	m := NewMetrics()
	m.Begin(Labels{Refusals: []string{"a"}, Failures: []string{"a"}, Changes: []string{"a"}, Events: []string{"a"}, EventResults: []string{"a"}})
	problems, err := testutil.GatherAndLint(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What is counted adds no series to those that are there from the start.
func TestSeriesAreThereFromTheStart(t *testing.T) {
	m := NewMetrics()
	m.Begin(Labels{Refusals: []string{"full"}, Failures: []string{"gate"}, Changes: []string{"placed"}, Events: []string{"GPUPlaced"}, EventResults: []string{"recorded"}})
	ours := []string{
		"phasegpu_extender_request_duration_seconds", "phasegpu_filter_refused_nodes_total", "phasegpu_bind_failures_total", "phasegpu_gate_wait_seconds",
		"phasegpu_reservation_changes_total", "phasegpu_events_total", "phasegpu_nudges_total", "phasegpu_unreadable_objects_total",
	}
	before, err := testutil.GatherAndCount(m.Registry, ours...)
	if err != nil {
		t.Fatal(err)
	}
	m.observe("filter", "refused", time.Now())
	m.observe("bind", "error", time.Now())
	m.Refused("full", 3)
	m.Failed("gate")
	m.Waited(time.Second, true)
	m.Waited(time.Second, false)
	m.Changed("placed")
	m.Told("GPUPlaced", "recorded")
	for _, result := range []string{"nudged", "gone", "refused", "failed"} {
		m.Nudged(result)
	}
	for _, kind := range []string{"Pod", "Node", "ResourceQuota"} {
		m.Problem(kind)
	}
	if after, err := testutil.GatherAndCount(m.Registry, ours...); after != before || err != nil {
		t.Errorf("%d series, before %d, %v", after, before, err)
	}
	if n := testutil.ToFloat64(m.refusals.WithLabelValues("full")); n != 3 {
		t.Errorf("%v refusals are counted, want 3", n)
	}
}
