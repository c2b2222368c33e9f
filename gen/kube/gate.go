package kube

import corev1 "k8s.io/api/core/v1"

// InGate reports whether a pod is in its node's gate: bound, recorded, not terminal, and kubelet has not
// reported on it. Kubelet sets status.startTime only once it has admitted or rejected a pod, and so after
// its devices are allocated; and it does not say for which pod it allocates.
func InGate(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !IsTerminal(pod) && pod.Status.StartTime == nil && Recorded(pod)
}
