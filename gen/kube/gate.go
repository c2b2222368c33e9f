package kube

import corev1 "k8s.io/api/core/v1"

// InGate reports whether a pod is in its node's gate: bound, with an allocation, not terminal, and not yet reported on
// by kubelet. Kubelet sets status.startTime once it has admitted or rejected a pod, which is after it allocated the
// pod's devices; it does not say for which pod it allocates.
func InGate(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !IsTerminal(pod) && pod.Status.StartTime == nil && Recorded(pod)
}
