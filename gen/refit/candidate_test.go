package refit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// A candidate's peak is the largest phase with the container there, and not a sum of containers that are never
// alive together.
func TestCandidates(t *testing.T) {
	amount := func(slots, memory int64) device.Amount { return device.Amount{Slots: slots, MemoryMiB: memory * gib} }
	none, capacity := amount(0, 0), device.Amount{Slots: 10, MemoryMiB: 40 * gib, Cores: 100}
	candidate := func(uuid string, others, peak device.Amount, has bool) refit.Candidate {
		return refit.Candidate{UUID: uuid, Capacity: capacity, Others: others, Peak: peak, Has: has}
	}
	pair := pod("p", rt.Container{Class: 'a', Entry: share("GPU-a", 10) + share("GPU-b", 10)})
	plain := pod("p", rt.Container{Class: 'a', Limits: rt.Limits("nvidia.com/gpu", "1", "nvidia.com/gpumem", "10240")})
	init := []refit.Candidate{candidate("GPU-b", none, amount(1, 30), false)}
	renamed := rt.Request(then('i'), 0, "GPU-b")
	renamed.Container.Name = "a1"
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		others  []corev1.Pod
		request *refit.Request
		want    []refit.Candidate
		refused refit.Reason
	}{
		{"an init container beside its app", then('i'), nil, rt.Request(then('i'), 0, "GPU-b", "GPU-x"), init, ""},
		{"others", then('i'), []corev1.Pod{*other("GPU-b", 15)}, rt.Request(then('i'), 0, "GPU-b"),
			[]refit.Candidate{candidate("GPU-b", amount(1, 15), amount(1, 30), false)}, ""},
		{"a sidecar beside its app", then('s'), nil, rt.Request(then('s'), 0, "GPU-b"),
			[]refit.Candidate{candidate("GPU-b", none, amount(2, 50), false)}, ""},
		{"already right", then('i'), nil, rt.Request(then('i'), 0, "GPU-b", "GPU-a"), []refit.Candidate{
			candidate("GPU-a", none, amount(1, 30), true), candidate("GPU-b", none, amount(1, 20), false)}, ""},
		{"one of two already right", pair, nil, rt.Request(pair, 0, "GPU-b"),
			[]refit.Candidate{candidate("GPU-b", none, amount(1, 10), true)}, ""},
		{"one that has started", rt.Started(then('i')), nil, rt.Request(then('i'), 0, "GPU-b"), init, ""},
		{"without devices", plain, nil, rt.Request(plain, 0, "GPU-b"), nil, refit.NotRecorded},
		{"another name at the position", then('i'), nil, renamed, nil, refit.UnknownContainer},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, refusal := refit.Candidates(c.pod, two(""), append(c.others, *c.pod), c.request, refit.Defaults{})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if rt.Reason(refusal) != c.refused {
				t.Errorf("refused with %v, want %q", refusal, c.refused)
			}
		})
	}
}
