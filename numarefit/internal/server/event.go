package server

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// maxText bounds what an event quotes: the API server refuses notes of more than 1024 bytes.
const maxText = 800

// Tell returns a Handler's Tell that writes events: Refitted or RefitRefused on the pod, nothing when its
// recorded devices were allowed or the pod is not there.
func Tell(recorder events.EventRecorder) func(*refit.Request, decide.Outcome) {
	return func(q *refit.Request, o decide.Outcome) {
		switch {
		case o.Pod == nil:
		case o.Refusal != nil:
			recorder.Eventf(o.Pod, nil, corev1.EventTypeWarning, "RefitRefused", "Refit", "%s: %s", o.Refusal.Reason, short(o.Refusal.Message))
		case o.Answer.Moved:
			recorder.Eventf(o.Pod, nil, corev1.EventTypeNormal, "Refitted", "Refit", "container %s has devices %s now, as kubelet's Topology Manager allows",
				q.Container.Name, short(strings.Join(o.Answer.Devices, ",")))
		}
	}
}

// short cuts a text that is too long for an event.
func short(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
