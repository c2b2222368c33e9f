package stack

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Told describes what kubelet says of a pod: "Running on node n1: load exit 0, cache running, train waiting
// (PodInitializing)".
func Told(pod *corev1.Pod) string {
	text := string(pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		text += " on node " + pod.Spec.NodeName
	}
	if pod.DeletionTimestamp != nil {
		text += ", being deleted"
	}
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		text += fmt.Sprintf(" (%s)", strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status != corev1.ConditionTrue {
			text += ", no sandbox"
		}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			text += ", unschedulable: " + c.Message
		}
	}
	separator := ": "
	for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		name := kube.Container(&pod.Spec, i).Name
		state := "unknown"
		if c := ContainerStatus(pod, name); c != nil {
			switch {
			case c.State.Running != nil:
				state = "running"
			case c.State.Terminated != nil:
				state = fmt.Sprintf("exit %d", c.State.Terminated.ExitCode)
			case c.State.Waiting != nil:
				state = fmt.Sprintf("waiting (%s)", strings.TrimSpace(c.State.Waiting.Reason+" "+c.State.Waiting.Message))
			}
			if c.RestartCount > 0 {
				state += fmt.Sprintf(", restarted %d×", c.RestartCount)
			}
		}
		text += separator + name + " " + state
		separator = ", "
	}
	return text
}

// ContainerStatus returns what kubelet says of a container, of whichever class; nil when it says nothing.
func ContainerStatus(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == container {
				return &statuses[i]
			}
		}
	}
	return nil
}

// Lacks returns an error for the first word that a message does not have.
func Lacks(message string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(message, word) {
			return fmt.Errorf("the message does not say %q: %s", word, message)
		}
	}
	return nil
}
