package stack

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Condition says whether a pod is as wanted: nil if it is, else an error that says how it is.
type Condition func(*corev1.Pod) error

// Bound holds for a pod that has a node.
func Bound(pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" {
		return errors.New(Describe(pod))
	}
	return nil
}

// InPhase holds for a pod in a phase.
func InPhase(phase corev1.PodPhase) Condition {
	return func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return errors.New(Describe(pod))
		}
		return nil
	}
}

// Unschedulable holds for a pod for which kube-scheduler has found no node, with all of these words in its reason.
func Unschedulable(words ...string) Condition {
	return func(pod *corev1.Pod) error {
		if pod.Spec.NodeName != "" || UnschedulableReason(pod) == "" {
			return errors.New(Describe(pod))
		}
		return Lacks(UnschedulableReason(pod), words...)
	}
}

// UnschedulableReason is why kube-scheduler found no node for a pod, "" when it has not said so.
func UnschedulableReason(pod *corev1.Pod) string {
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Message
	}
	return ""
}

// Describe says in a line what kubelet and kube-scheduler report of a pod: "Running on node n1: load exit 0, cache
// running, train waiting (PodInitializing)".
func Describe(pod *corev1.Pod) string {
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
	if c := podCondition(pod, corev1.PodReadyToStartContainers); c != nil && c.Status != corev1.ConditionTrue {
		text += ", no sandbox"
	}
	if reason := UnschedulableReason(pod); reason != "" {
		text += ", unschedulable: " + reason
	}
	separator := ": "
	for i := range NumContainers(pod) {
		name := kube.Container(&pod.Spec, i).Name
		text += separator + name + " " + describeContainer(ContainerStatus(pod, name))
		separator = ", "
	}
	return text
}

func describeContainer(c *corev1.ContainerStatus) string {
	state := "unknown"
	switch {
	case c == nil:
		return state
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
	return state
}

// NumContainers is the number of init containers, sidecars and apps of a pod.
func NumContainers(pod *corev1.Pod) int {
	return len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
}

// ContainerStatus returns what kubelet reports of a container of any class; nil when it reports nothing.
func ContainerStatus(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == container {
				return &statuses[i]
			}
		}
	}
	return nil
}

// Placement describes where a bound pod's containers are: "load on GPU-a-0, train on GPU-a-0 and GPU-a-1", or "all on
// GPU-a-0".
func Placement(pod *corev1.Pod) string {
	allocation, err := kube.Allocation(pod)
	if err != nil {
		return err.Error()
	}
	var all []string
	places := map[string]bool{}
	for position, shares := range allocation {
		var on []string
		for _, share := range shares {
			on = append(on, share.UUID)
		}
		if place := strings.Join(on, " and "); place != "" {
			places[place] = true
			all = append(all, kube.Container(&pod.Spec, position).Name+" on "+place)
		}
	}
	if len(all) > 1 && len(places) == 1 {
		_, place, _ := strings.Cut(all[0], " on ")
		return "all on " + place
	}
	return strings.Join(all, ", ")
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

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
