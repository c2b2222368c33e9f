// Package overcommit tells a pod's owner when the pod's containers run again and what they need has
// meanwhile gone to others.
package overcommit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Reason is the event's reason.
const Reason = "GPUOvercommitted"

// Warn writes one event on a pod whose reservation has risen on devices that are now held above their
// capacity. raised is what the change of the pod changed in the books, e what they hold for it and v its
// node.
func Warn(recorder events.EventRecorder, pod *corev1.Pod, raised ledger.Delta, e *ledger.Entry, v *ledger.View) {
	if !raised.Raised || e == nil || v == nil {
		return
	}
	for _, o := range v.OverCommitted() {
		mine := slices.ContainsFunc(e.Reserved.Devices, func(h phase.Holding) bool { return h.UUID == o.UUID })
		if mine {
			recorder.Eventf(pod, nil, corev1.EventTypeWarning, Reason, "Rerun",
				"its containers run again and can use more of GPU %s of node %s than is left: %v reserved of %v; nothing more is placed there until that falls",
				o.UUID, v.Name, o.Held, o.Capacity)
			return
		}
	}
}
