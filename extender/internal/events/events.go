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

// Reasons lists the reasons of events, all of which are told unless the operator chooses.
func Reasons() []string { return []string{Placed, Released, Raised, Overcommitted} }

// What becomes of reservations, for metrics.
const (
	placed        = "placed"
	released      = "released"
	raised        = "raised"
	overcommitted = "overcommitted"
	ended         = "ended"
)

// Changes lists what Config.Changed is told.
func Changes() []string { return []string{placed, released, raised, overcommitted, ended} }

// Events per second, and at once, of each type: warnings find room when there is none left for the others.
const (
	PerSecond = 10
	Burst     = 100
)

// Results lists what Config.Told is told of an event.
func Results() []string { return []string{"recorded", "dropped"} }

// Config is what notices are written with. Its functions must not block.
type Config struct {
	Recorder events.EventRecorder
	Reasons  []string                    // that are told
	Changed  func(change string)         // told of each change of a reservation
	Told     func(reason, result string) // told of each event
}

// Notices writes events. Its methods do not block.
type Notices struct {
	Config
	limits map[string]flowcontrol.PassiveRateLimiter // by type
}

// New returns notices.
func New(c Config) *Notices {
	limit := func() flowcontrol.PassiveRateLimiter {
		return flowcontrol.NewTokenBucketPassiveRateLimiter(PerSecond, Burst)
	}
	return &Notices{c, map[string]flowcontrol.PassiveRateLimiter{corev1.EventTypeNormal: limit(), corev1.EventTypeWarning: limit()}}
}

// Bound tells of a binding that was made: the pod's devices and what it can use of them.
func (n *Notices) Bound(p *podrequest.Request, node string, a device.Allocation) {
	n.Changed(placed)
	n.tell(reference(p.Namespace, p.Name, p.UID), corev1.EventTypeNormal, Placed, "Bind", func() string {
		return "on node " + node + ": " + peaks(p.Placement.Classes, a)
	})
}

// Observed tells what a change of a bound pod changed in the books, d: e is what they hold for it now and v
// its node, both nil when they hold nothing. before is what they held, nil or assumed for a pod that the watch
// shows for the first time; new is nil for one that is gone.
func (n *Notices) Observed(before *ledger.Entry, new *corev1.Pod, d ledger.Delta, e *ledger.Entry, v *ledger.View) {
	switch {
	case before == nil || before.Assumed || !d.Changed:
		return
	case new == nil || e == nil || e.First == phase.None:
		if d.Released {
			n.Changed(ended)
		}
		return
	}
	if d.Raised {
		if o, ok := short(e, v); ok {
			n.Changed(overcommitted)
			n.tell(reference(new.Namespace, new.Name, e.UID), corev1.EventTypeWarning, Overcommitted, "Rerun", func() string {
				return fmt.Sprintf("its containers run again and can use more of GPU %s of node %s than is left: %v reserved of %v; nothing more is placed there until that falls",
					o.UUID, v.Name, o.Held, o.Capacity)
			})
			return
		}
	}
	if !before.Allocation.Equal(e.Allocation) {
		return // it was moved to other devices: the refit service tells
	}
	switch {
	case e.First < before.First && d.Raised:
		n.Changed(raised)
		n.tell(reference(new.Namespace, new.Name, e.UID), corev1.EventTypeNormal, Raised, "Rerun", func() string {
			return "its init containers run again: " + difference(e, before.First)
		})
	case e.First > before.First && d.Released:
		n.Changed(released)
		name := kube.Container(&new.Spec, e.Classes.InitPosition(e.First-1)).Name
		ref := reference(new.Namespace, new.Name, e.UID)
		ref.FieldPath = "spec.initContainers{" + name + "}"
		n.tell(ref, corev1.EventTypeNormal, Released, "Release", func() string {
			return fmt.Sprintf("after init container %s: %s", name, difference(e, before.First))
		})
	}
}

// short returns a device of the pod's that is held above its capacity.
func short(e *ledger.Entry, v *ledger.View) (ledger.OverCommit, bool) {
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

// reference names a pod, and not a version of it: events about different versions would not be added up.
func reference(namespace, name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// tell writes an event, unless the operator does not want it or there are too many.
func (n *Notices) tell(pod *corev1.ObjectReference, kind, reason, action string, note func() string) {
	if !slices.Contains(n.Reasons, reason) {
		return
	}
	if !n.limits[kind].TryAccept() {
		n.Told(reason, "dropped")
		return
	}
	n.Told(reason, "recorded")
	n.Recorder.Eventf(pod, nil, kind, reason, action, "%s", cut(note()))
}
