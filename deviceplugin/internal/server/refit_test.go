package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// Questions are counted by result and reason, and what was answered is passed on.
func TestObservedRefit(t *testing.T) {
	m := NewMetrics()
	for _, given := range []struct {
		answer *refit.Answer
		err    error
	}{
		{&refit.Answer{Devices: []string{"G1"}, Moved: true}, nil},
		{&refit.Answer{Devices: []string{"G0"}}, nil},
		{nil, &refit.Refusal{Reason: refit.NoMemory, Message: "G1 is full"}},
		{nil, fmt.Errorf("wrapped: %w", &refit.Refusal{Reason: refit.NoMemory})},
		{nil, &refitclient.Failure{Kind: refitclient.Timeout}},
		{nil, errors.New("unexpected")},
	} {
		service := func(context.Context, *refit.Request) (*refit.Answer, error) { return given.answer, given.err }
		answer, err := ObservedRefit(service, m, zap.NewNop())(t.Context(), &refit.Request{})
		if answer != given.answer || err != given.err {
			t.Errorf("passed on %v, %v; want %v, %v", answer, err, given.answer, given.err)
		}
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var timed uint64
	for _, f := range families {
		if f.GetName() == "phasegpu_device_plugin_refit_duration_seconds" {
			for _, metric := range f.GetMetric() {
				timed += metric.GetHistogram().GetSampleCount()
			}
		}
		if f.GetName() != "phasegpu_device_plugin_refits_total" {
			continue
		}
		for _, metric := range f.GetMetric() {
			line := fmt.Sprint(metric.GetCounter().GetValue())
			for _, label := range metric.GetLabel() {
				line += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
			}
			got = append(got, line)
		}
	}
	if timed != 6 {
		t.Errorf("%d questions were timed, want 6", timed)
	}
	slices.Sort(got)
	want := []string{
		"1 reason= result=failed", "1 reason= result=moved", "1 reason= result=unchanged",
		"1 reason=Timeout result=failed", "2 reason=NoMemory result=refused",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
