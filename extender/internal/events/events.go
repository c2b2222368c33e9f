// Package events tells a pod's owner, in events on the pod, what becomes of its devices: where they are, what is
// given back after which init container, and when it is taken again.
//
// Only transitions are told: a binding that this extender made, or what changed in the books between two
// looks of the watch at a pod. So nothing is told again after a restart or by the next leader. Events are
// written by client-go's recorder, beside whatever caused them: it adds up those that are alike for six
// minutes. Beyond a rate, events are dropped and counted.
package events

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// The reasons of events.
const (
	Placed        = "GPUPlaced"
	Released      = "GPUReleased"      // an init container has finished
	Raised        = "GPURaised"        // init containers run again
	Overcommitted = "GPUOvercommitted" // and what they need has gone to others
)

// Reasons lists the reasons of events. All are written unless the operator chooses.
func Reasons() []string { return []string{Placed, Released, Raised, Overcommitted} }

// Changes of reservations, for metrics.
const (
	placed        = "placed"
	released      = "released"
	raised        = "raised"
	overcommitted = "overcommitted"
	ended         = "ended"
)

// Changes lists the changes that are counted.
func Changes() []string { return []string{placed, released, raised, overcommitted, ended} }

// Results lists the results of events that are counted.
func Results() []string { return []string{"recorded", "dropped"} }

// Events per second, and at once, of each type: many normal events do not keep warnings from being written.
const (
	PerSecond = 10
	Burst     = 100
)

// Metrics counts. Its methods must not block.
type Metrics interface {
	ReservationChanged(change string)
	Event(reason, result string)
}

// PodEvents writes events on pods. Its methods do not block.
type PodEvents struct {
	recorder events.EventRecorder
	reasons  []string
	metrics  Metrics
	limits   map[string]flowcontrol.PassiveRateLimiter // by type
}

// New returns events of these reasons alone.
func New(recorder events.EventRecorder, reasons []string, metrics Metrics) *PodEvents {
	limit := func() flowcontrol.PassiveRateLimiter {
		return flowcontrol.NewTokenBucketPassiveRateLimiter(PerSecond, Burst)
	}
	return &PodEvents{recorder, reasons, metrics, map[string]flowcontrol.PassiveRateLimiter{
		corev1.EventTypeNormal: limit(), corev1.EventTypeWarning: limit(),
	}}
}

// Bound takes a binding that was made; its event names the pod's devices and what it can use of them.
func (n *PodEvents) Bound(p *podrequest.Request, node string, a device.Allocation) {
	n.metrics.ReservationChanged(placed)
	n.write(reference(p.Namespace, p.Name, p.UID), corev1.EventTypeNormal, Placed, "Bind", func() string {
		return "on node " + node + ": " + peaks(p.Placement.Classes, a)
	})
}

// Observed takes a change d of what the books hold for a bound pod: before is what they held, nil or assumed for a pod
// that the watch shows for the first time. e is what they hold now and v its node, both nil when they hold nothing. new
// is nil for a pod that is gone.
func (n *PodEvents) Observed(before *ledger.Entry, new *corev1.Pod, d ledger.Delta, e *ledger.Entry, v *ledger.View) {
	switch {
	case before == nil || before.Assumed || !d.Changed:
		return
	case new == nil || e == nil || e.First == phase.None:
		if d.Released {
			n.metrics.ReservationChanged(ended)
		}
		return
	}
	ref := reference(new.Namespace, new.Name, e.UID)
	if d.Raised {
		if o, ok := overcommit(e, v); ok {
			n.metrics.ReservationChanged(overcommitted)
			n.write(ref, corev1.EventTypeWarning, Overcommitted, "Rerun", func() string {
				return fmt.Sprintf("its containers run again and can use more of GPU %s of node %s than is left: "+
					"%v reserved of %v; nothing more is placed there until that falls", o.UUID, v.Name, o.Held,
					o.Capacity)
			})
			return
		}
	}
	if !before.Allocation.Equal(e.Allocation) {
		return // the refit service moved it to other devices, and writes its own event
	}
	switch {
	case e.First < before.First && d.Raised:
		n.metrics.ReservationChanged(raised)
		n.write(ref, corev1.EventTypeNormal, Raised, "Rerun", func() string {
			return "its init containers run again: " + difference(e, before.First)
		})
	case e.First > before.First && d.Released:
		n.metrics.ReservationChanged(released)
		name := kube.Container(&new.Spec, e.Classes.InitPosition(e.First-1)).Name
		ref.FieldPath = "spec.initContainers{" + name + "}"
		n.write(ref, corev1.EventTypeNormal, Released, "Release", func() string {
			return fmt.Sprintf("after init container %s: %s", name, difference(e, before.First))
		})
	}
}

// overcommit returns a device of the pod's of which more is reserved than it has.
func overcommit(e *ledger.Entry, v *ledger.View) (ledger.OverCommit, bool) {
	if v == nil {
		return ledger.OverCommit{}, false
	}
	for _, o := range v.OverCommitted() {
		if slices.ContainsFunc(e.Reserved.Devices, func(h phase.Holding) bool { return h.UUID == o.UUID }) {
			return o, true
		}
	}
	return ledger.OverCommit{}, false
}

// reference names a pod without a resourceVersion: client-go would not aggregate events about different versions.
func reference(namespace, name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// write writes an event, unless the operator does not want it or there are too many.
func (n *PodEvents) write(pod *corev1.ObjectReference, kind, reason, action string, note func() string) {
	if !slices.Contains(n.reasons, reason) {
		return
	}
	if !n.limits[kind].TryAccept() {
		n.metrics.Event(reason, "dropped")
		return
	}
	n.metrics.Event(reason, "recorded")
	n.recorder.Eventf(pod, nil, kind, reason, action, "%s", cut(note()))
}
