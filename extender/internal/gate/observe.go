package gate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Observe takes the truth about a pod: it is inside while it is bound, recorded, not terminal, and kubelet
// has not reported on it.
func (g *Gate) Observe(pod *corev1.Pod) {
	if !kube.InGate(pod) {
		g.Leave(string(pod.UID))
		return
	}
	p := Pod{UID: string(pod.UID), Name: pod.Namespace + "/" + pod.Name, Alone: kube.Movable(pod)}
	if a, err := kube.Allocation(pod); err == nil {
		p.Allocation = a
	}
	g.Inside(pod.Spec.NodeName, p)
}
