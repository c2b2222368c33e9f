package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// fixed is a refit service that always answers the same.
type fixed struct {
	answer *refit.Answer
	err    error
}

func (f fixed) Ask(context.Context, *refit.Request) (*refit.Answer, error) { return f.answer, f.err }

// Requests are counted by result and reason, and the answer is passed on.
func TestObserveRefit(t *testing.T) {
	m, registry := newMetrics()
	refusal := &refit.Refusal{Reason: refit.NoMemory, Message: "G1 is full"}
	for _, service := range []fixed{
		{&refit.Answer{Devices: []string{"G1"}, Moved: true}, nil},
		{&refit.Answer{Devices: []string{"G0"}}, nil},
		{nil, refusal},
		{nil, fmt.Errorf("wrapped: %w", refusal)},
		{nil, &refitclient.Failure{Kind: refitclient.Timeout}},
		{nil, errors.New("unexpected")},
	} {
		answer, err := ObserveRefit(service, m, zap.NewNop()).Ask(t.Context(), &refit.Request{})
		if answer != service.answer || err != service.err {
			t.Errorf("passed on %v, %v; want %v, %v", answer, err, service.answer, service.err)
		}
	}
	for labels, want := range map[[2]string]float64{
		{failed, ""}: 1, {moved, ""}: 1, {unchanged, ""}: 1, {failed, "Timeout"}: 1, {refused, "NoMemory"}: 2,
	} {
		if got := testutil.ToFloat64(m.refits.WithLabelValues(labels[0], labels[1])); got != want {
			t.Errorf("%q is counted %v times, want %v", labels, got, want)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var timed uint64
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			timed += metric.GetHistogram().GetSampleCount()
		}
	}
	if series := testutil.CollectAndCount(m.refits); series != 5 || timed != 6 {
		t.Errorf("%d series, %d requests timed; want 5 and 6", series, timed)
	}
}
