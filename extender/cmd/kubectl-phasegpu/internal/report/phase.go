package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Steady is the name of a pod's last phase. The others are named after their init containers.
const Steady = "steady"

// Phase is a phase of a pod and who runs in it.
type Phase struct {
	Name  string   `json:"name"`
	Alive []string `json:"alive"` // containers, in position order
}

// Phases returns the phases of a pod, steady last.
func Phases(spec *corev1.PodSpec) []Phase {
	classes := kube.Classes(spec)
	phases := make([]Phase, classes.Len())
	for k := range phases {
		phases[k] = Phase{Name: PhaseName(spec, classes, k), Alive: []string{}}
		for i := range classes {
			if classes.Alive(k, i) {
				phases[k].Alive = append(phases[k].Alive, kube.Container(spec, i).Name)
			}
		}
	}
	return phases
}

// PhaseName returns the name of phase k.
func PhaseName(spec *corev1.PodSpec, classes phase.Pod, k int) string {
	if c := kube.Container(spec, classes.InitPosition(k)); c != nil {
		return c.Name
	}
	return Steady
}

// BoundAt returns when a pod was bound, zero when its status does not say.
func BoundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
