package nodesim

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// ids returns how many ids of a device plugin's resource kubelet's device manager holds for a pod, for the
// pod's whole life: containers get them in declaration order; one takes first what ended init containers
// leave behind; what an init container got is left behind for the containers after it, what a sidecar or an
// app got is not. (Kubernetes, pkg/kubelet/cm/devicemanager: Allocate and devicesToAllocate.)
func ids(spec *corev1.PodSpec, name corev1.ResourceName) int64 {
	var held, reusable int64
	for position, class := range kube.Classes(spec) {
		limit := kube.Container(spec, position).Resources.Limits[name]
		n := limit.Value()
		reused := min(n, reusable)
		held += n - reused
		if class == phase.Init {
			reusable += n - reused
		} else {
			reusable -= reused
		}
	}
	return held
}

// rejection is why a pod is not admitted: reason and message of its status.
type rejection struct{ reason, message string }

// judge says why a node that can give so much, of which the active pods hold their part, cannot take a pod
// besides; nil if it can. Device plugins are asked first, as kubelet does.
func judge(pod *corev1.Pod, active []*corev1.Pod, allocatable corev1.ResourceList) *rejection {
	for _, family := range classify.Families() {
		for _, name := range family.Advertised {
			need := ids(&pod.Spec, name)
			if need == 0 {
				continue
			}
			has := allocatable[name]
			free := has.Value()
			for _, p := range active {
				free -= ids(&p.Spec, name)
			}
			if need > free {
				return &rejection{"UnexpectedAdmissionError", fmt.Sprintf(
					"Allocate failed due to requested number of devices unavailable for %s. "+
						"Requested: %d, Available: %d, which is unexpected",
					name, need, max(free, 0))}
			}
		}
	}
	return judgeRequests(pod, active, allocatable)
}

func judgeRequests(pod *corev1.Pod, active []*corev1.Pod, allocatable corev1.ResourceList) *rejection {
	need := requests(pod)
	for _, name := range slices.Sorted(maps.Keys(need)) {
		has, ok := allocatable[name]
		if !ok {
			continue // an extended resource that no plugin advertises; kubelet leaves it out as well
		}
		var used quantity.Quantity
		for _, p := range active {
			used.Add(requests(p)[name])
		}
		wanted := need[name]
		sum := used.DeepCopy()
		sum.Add(wanted)
		if sum.Cmp(has) > 0 {
			return &rejection{"OutOf" + string(name), fmt.Sprintf(
				"Node didn't have enough resource: %s, requested: %s, used: %s, capacity: %s",
				name, &wanted, &used, &has)}
		}
	}
	return nil
}

// requests is the pod's effective requests, itself among them.
func requests(pod *corev1.Pod) corev1.ResourceList {
	r := resource.PodRequests(pod, resource.PodResourcesOptions{})
	r[corev1.ResourcePods] = *quantity.NewQuantity(1, quantity.DecimalSI)
	return r
}
