package allocate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Drift counts the containers on which pods, records and kubelet's checkpoint disagree. All are zero unless something
// is wrong or kubelet is in the middle of a pod.
type Drift struct {
	Gone     int // kubelet keeps devices for a pod that no longer exists or has ended
	Strayed  int // got another container's devices; it is not started
	Unserved int // recorded and admitted, without devices
	Moved    int // has other devices than its record names now
	Unbooked int // has devices without a record, so that no book charges it
}

// Drift compares the pods of the node with the checkpoint.
func (a *Allocator) Drift(pods []corev1.Pod, entries []kubelet.Entry) Drift {
	var d Drift
	live := map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if !kube.IsTerminal(pod) {
			live[string(pod.UID)] = pod
		}
	}
	for _, e := range entries {
		pod := live[e.PodUID]
		switch {
		case pod == nil:
			d.Gone++
		case !meant(e):
			d.Strayed++
		case !kube.Recorded(pod):
			d.Unbooked++
		default:
			if _, differs := elsewhere(pod, e); differs {
				d.Moved++
			}
		}
	}
	got := served(entries)
	for uid, pod := range live {
		if pending(pod) || !kube.Recorded(pod) {
			continue
		}
		for i := range containers(pod) {
			if asks(pod, i, a.Resource) > 0 && !got[uid+"/"+kube.Container(&pod.Spec, i).Name] {
				d.Unserved++
			}
		}
	}
	return d
}
