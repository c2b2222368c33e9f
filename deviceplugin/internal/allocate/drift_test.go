package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
)

func fixed(entries []kubelet.Entry) func() ([]kubelet.Entry, error) {
	return func() ([]kubelet.Entry, error) { return entries, nil }
}

func TestDrift(t *testing.T) {
	n := newNode(t, 10)
	drift := func(want allocate.Drift) {
		t.Helper()
		a := n.allocator()
		pods, _ := n.list(t.Context())
		entries, err := a.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, a.Drift(pods, entries)); diff != "" {
			t.Errorf("drift (-want +got):\n%s", diff)
		}
	}
	drift(allocate.Drift{})
	running := newPod("running", part{"I", on("G0", 1000)}, part{"A", on("G1", 2000)})
	n.admit(running, nil)
	waiting := newPod("waiting", part{"A", on("G0", 1000)})
	n.bind(waiting)
	drift(allocate.Drift{})

	late := newPod("late", part{"A", on("G0", 1000)})
	if err := n.admitting(late); err != nil {
		t.Fatal(err)
	}
	drift(allocate.Drift{Gone: 1})
	n.report(late, corev1.PodRunning)
	n.bind(late) // its mirror pod appears
	drift(allocate.Drift{Strayed: 1})

	n.report(waiting, corev1.PodRunning)
	drift(allocate.Drift{Strayed: 1, Unserved: 1})
	delete(running.Annotations, record)
	drift(allocate.Drift{Strayed: 1, Unserved: 1, Unbooked: 2})
	running.Status.Phase = corev1.PodSucceeded
	drift(allocate.Drift{Gone: 2, Strayed: 1, Unserved: 1})
}
