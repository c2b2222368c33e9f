package allocate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
)

func TestDrift(t *testing.T) {
	n := newNode(t, 10)
	n.drifts(allocate.Drift{})
	running := newPod("running", part{"I", on("G0", 1000)}, part{"A", on("G1", 2000)})
	n.admit(running, nil)
	waiting := newPod("waiting", part{"A", on("G0", 1000)})
	n.bind(waiting)
	n.drifts(allocate.Drift{})

	late := newPod("late", part{"A", on("G0", 1000)})
	must(t, n.admitting(late))
	n.drifts(allocate.Drift{Gone: 1})
	n.report(late, corev1.PodRunning)
	n.bind(late) // its mirror pod appears
	n.drifts(allocate.Drift{Strayed: 1})

	n.report(waiting, corev1.PodRunning)
	n.drifts(allocate.Drift{Strayed: 1, Unserved: 1})
	delete(running.Annotations, record)
	n.drifts(allocate.Drift{Strayed: 1, Unserved: 1, Unbooked: 2})
	running.Status.Phase = corev1.PodSucceeded
	n.drifts(allocate.Drift{Gone: 2, Strayed: 1, Unserved: 1})
}
