package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
)

// allContainersRestarting is kubelet's condition (1.36 and later) that an exit rule restarts the whole pod in place.
const allContainersRestarting = corev1.PodConditionType("AllContainersRestarting")

// Status returns a pod's progress, containers by name. The result reads the pod when it is used, so the pod must not
// change meanwhile.
func Status(pod *corev1.Pod) phase.Status {
	s := phase.Status{
		Terminal: IsTerminal(pod),
		Deleting: pod.DeletionTimestamp != nil,
		State:    func(position int) phase.State { return state(pod, position) },
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		switch {
		case c.Type == allContainersRestarting && c.Status == corev1.ConditionTrue:
			s.Restarting = true
		case c.Type != corev1.PodReadyToStartContainers:
		case c.Status == corev1.ConditionFalse:
			s.Sandbox, s.SandboxReadyAt = phase.SandboxNotReady, time.Time{}
		case c.Status == corev1.ConditionTrue && s.Sandbox == phase.SandboxUnknown:
			s.Sandbox, s.SandboxReadyAt = phase.SandboxReady, c.LastTransitionTime.Time
		}
	}
	return s
}

// state returns what the status says of the container at a position.
func state(pod *corev1.Pod, position int) phase.State {
	container := Container(&pod.Spec, position)
	if container == nil {
		return phase.State{}
	}
	statuses := pod.Status.InitContainerStatuses
	if position >= len(pod.Spec.InitContainers) {
		statuses, position = pod.Status.ContainerStatuses, position-len(pod.Spec.InitContainers)
	}
	// Kubelet sorts by position (inits) or name (apps); only the name is promised.
	if position < len(statuses) && statuses[position].Name == container.Name {
		return stateOf(&statuses[position].State)
	}
	for i := range statuses {
		if statuses[i].Name == container.Name {
			return stateOf(&statuses[i].State)
		}
	}
	return phase.State{}
}

// stateOf returns a container's state; one with two states at once has none.
func stateOf(s *corev1.ContainerState) phase.State {
	switch {
	case s.Running != nil && s.Terminated == nil && s.Waiting == nil:
		return phase.State{Running: true, StartedAt: s.Running.StartedAt.Time}
	case s.Terminated != nil && s.Running == nil && s.Waiting == nil:
		return phase.State{
			Terminated: true, ExitCode: s.Terminated.ExitCode,
			StartedAt: s.Terminated.StartedAt.Time, FinishedAt: s.Terminated.FinishedAt.Time,
		}
	default:
		return phase.State{}
	}
}
