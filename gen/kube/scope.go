package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// Scope returns what the scopes of a ResourceQuota can select the pod by, as in the API server's pod evaluator
// (k8s.io/kubernetes/pkg/quota/v1/evaluator/core).
func Scope(pod *corev1.Pod) ledger.Scope {
	deadline := pod.Spec.ActiveDeadlineSeconds
	return ledger.Scope{
		Terminating:            deadline != nil && *deadline >= 0,
		BestEffort:             bestEffort(pod),
		CrossNamespaceAffinity: crossNamespaceAffinity(pod.Spec.Affinity),
		PriorityClass:          pod.Spec.PriorityClassName,
	}
}

// bestEffort reports whether the QoS class is BestEffort, as the API server recorded it or, at admission, will record
// it: no CPU and no memory requested, by the pod if it has resources of its own, else by its containers.
func bestEffort(pod *corev1.Pod) bool {
	if class := pod.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		return !asksCompute(r)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if asksCompute(&containers[i].Resources) {
				return false
			}
		}
	}
	return true
}

func asksCompute(r *corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := list[name]; !q.IsZero() {
				return true
			}
		}
	}
	return false
}

// crossNamespaceAffinity reports whether a term of pod (anti-)affinity names other namespaces.
func crossNamespaceAffinity(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range weighted {
		terms = append(terms, weighted[i].PodAffinityTerm)
	}
	for i := range terms {
		if len(terms[i].Namespaces) > 0 || terms[i].NamespaceSelector != nil {
			return true
		}
	}
	return false
}
