package nodesim

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// phase is kubelet's getPhase for what there is.
func (l *life) phase() corev1.PodPhase {
	var pending, failed bool
	var apps, stopped, succeeded, waits int
	again := false // an app that has ended runs again
	for _, c := range l.containers {
		last := c.state.Terminated
		if c.state.Waiting != nil {
			last = c.last.Terminated
		}
		switch {
		case c.class == phase.Init:
			pending = pending || c.state.Running != nil || last == nil
			failed = failed || last != nil && c.state.Running == nil && last.ExitCode != 0
		case c.class == phase.Sidecar:
			pending = pending || c.cycle == 0
		default:
			apps++
			switch {
			case c.state.Running != nil:
			case last == nil:
				waits++
			default:
				stopped++
				if last.ExitCode == 0 {
					succeeded++
				}
				again = again || c.state.Terminated == nil || c.restarts()
			}
		}
	}
	switch {
	case l.doomed() && !l.running():
		return corev1.PodFailed
	case l.final && stopped == apps && succeeded == apps:
		return corev1.PodSucceeded
	case l.final:
		return corev1.PodFailed
	case pending || failed || waits > 0:
		return corev1.PodPending
	case stopped < apps || again || l.running():
		return corev1.PodRunning
	case succeeded == apps:
		return corev1.PodSucceeded
	default:
		return corev1.PodFailed
	}
}

// status is the report of what there is, as a part of a pod.
func (l *life) status(now time.Time) corev1.PodStatus {
	if l.rejected != nil {
		return corev1.PodStatus{
			Phase: corev1.PodFailed, StartTime: &l.begun,
			Reason: l.rejected.reason, Message: "Pod was rejected: " + l.rejected.message,
		}
	}
	s := corev1.PodStatus{Phase: l.phase(), StartTime: &l.begun}
	initialized, ready := true, true
	for i, c := range l.containers {
		status := corev1.ContainerStatus{
			Name: c.name, Image: "simulated", State: c.state, LastTerminationState: c.last, RestartCount: c.restart,
		}
		running := c.state.Running != nil
		status.Started = &running
		if running {
			status.Resources = &kube.Container(&l.pod.Spec, i).Resources
		}
		status.Ready = running && c.class != phase.Init || c.class == phase.Init && c.succeeded()
		if i < len(l.pod.Spec.InitContainers) {
			initialized = initialized && status.Ready
			s.InitContainerStatuses = append(s.InitContainerStatuses, status)
		} else {
			initialized = initialized || c.runs > 0 // kubelet says so of every pod whose apps have run
			s.ContainerStatuses = append(s.ContainerStatuses, status)
		}
		ready = ready && (status.Ready || c.class == phase.Init)
	}
	l.setCondition(corev1.PodInitialized, initialized, now)
	l.setCondition(corev1.ContainersReady, ready, now)
	l.setCondition(corev1.PodReady, ready, now)
	for _, t := range ownConditions() {
		if c, ok := l.conditions[t]; ok {
			s.Conditions = append(s.Conditions, c)
		}
	}
	return s
}

func (l *life) setCondition(t corev1.PodConditionType, holds bool, now time.Time) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	if l.conditions[t].Status != status {
		l.conditions[t] = corev1.PodCondition{Type: t, Status: status, LastTransitionTime: l.stamp(now)}
	}
}

func (l *life) holds(t corev1.PodConditionType) bool {
	return l.conditions[t].Status == corev1.ConditionTrue
}

// patch returns a merge patch that makes status what a kubelet owns of the pod's status. It says null where
// there is nothing, and keeps conditions of others.
func patch(uid types.UID, status corev1.PodStatus, there []corev1.PodCondition) ([]byte, error) {
	conditions := slices.Clone(status.Conditions)
	for _, other := range there {
		if !slices.Contains(ownConditions(), other.Type) && !has(conditions, other.Type) {
			conditions = append(conditions, other)
		}
	}
	orNull := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status": map[string]any{
			"phase":                 status.Phase,
			"reason":                orNull(status.Reason),
			"message":               orNull(status.Message),
			"startTime":             status.StartTime,
			"conditions":            conditions,
			"initContainerStatuses": status.InitContainerStatuses,
			"containerStatuses":     status.ContainerStatuses,
		},
	})
}

func has(conditions []corev1.PodCondition, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == t })
}

// ownConditions are those that kubelet owns.
func ownConditions() []corev1.PodConditionType {
	return []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		allContainersRestarting,
	}
}
