package refit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// A candidate's peak is the largest phase with the container there, and not a sum of containers that are never
// alive together.
func TestCandidates(t *testing.T) {
	amount := func(slots, memory int64) device.Amount { return device.Amount{Slots: slots, MemoryMiB: memory * gib} }
	of := func(uuid string, others, peak device.Amount, has bool) refit.Candidate {
		return refit.Candidate{UUID: uuid, Capacity: device.Amount{Slots: 10, MemoryMiB: 40 * gib, Cores: 100}, Others: others, Peak: peak, Has: has}
	}
	pair := pod("p", container{'a', gpu(2, 10), held("GPU-a", 10) + held("GPU-b", 10)})
	plain := pod("p", container{'a', gpu(1, 10), ""})
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		others  []*corev1.Pod
		allowed []string
		want    []refit.Candidate
		refused refit.Reason
	}{
		{"case 44: an init container beside its app", initThenApp('i'), nil, []string{"GPU-b", "GPU-x"}, []refit.Candidate{of("GPU-b", amount(0, 0), amount(1, 30), false)}, ""},
		{"others", initThenApp('i'), []*corev1.Pod{other("o", "GPU-b", 15)}, []string{"GPU-b"}, []refit.Candidate{of("GPU-b", amount(1, 15), amount(1, 30), false)}, ""},
		{"a sidecar beside its app", initThenApp('s'), nil, []string{"GPU-b"}, []refit.Candidate{of("GPU-b", amount(0, 0), amount(2, 50), false)}, ""},
		{"already right", initThenApp('i'), nil, []string{"GPU-b", "GPU-a"}, []refit.Candidate{
			of("GPU-a", amount(0, 0), amount(1, 30), true), of("GPU-b", amount(0, 0), amount(1, 20), false)}, ""},
		{"one of two already right", pair, nil, []string{"GPU-b"}, []refit.Candidate{of("GPU-b", amount(0, 0), amount(1, 10), true)}, ""},
		{"one that has started", started(initThenApp('i')), nil, []string{"GPU-b"}, []refit.Candidate{of("GPU-b", amount(0, 0), amount(1, 30), false)}, ""},
		{"without devices", plain, nil, []string{"GPU-b"}, nil, refit.NotRecorded},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := []corev1.Pod{*c.pod}
			for _, o := range c.others {
				pods = append(pods, *o)
			}
			got, refusal := refit.Candidates(c.pod, two(), pods, ask(c.pod, 0, c.allowed...), refit.Defaults{})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if (refusal == nil) != (c.refused == "") || refusal != nil && refusal.Reason != c.refused {
				t.Errorf("refused with %v, want %q", refusal, c.refused)
			}
		})
	}
	elsewhere := ask(initThenApp('i'), 0, "GPU-b")
	elsewhere.Container.Name = "a0"
	if _, refusal := refit.Candidates(initThenApp('i'), two(), nil, elsewhere, refit.Defaults{}); refusal == nil || refusal.Reason != refit.UnknownContainer {
		t.Errorf("another name at the position is refused with %v", refusal)
	}
}
