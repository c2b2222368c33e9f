package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// Allocation reads what every container of the pod holds, over all families' annotations. A pod without
// such an annotation has an empty allocation, which still has an entry for every container. The error
// names the annotation and the part; when several annotations are bad, the first by key.
func Allocation(pod *corev1.Pod) (device.Allocation, error) {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	keys := make([]string, 0, 1) // nearly always
	for key := range pod.Annotations {
		if classify.Allocation(key) != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var merged device.Allocation
	for _, key := range keys {
		one, err := wire.DecodeAllocation(classify.Allocation(key), pod.Annotations[key], containers)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", key, err)
		}
		if merged == nil {
			merged = one
			continue
		}
		for position, shares := range one {
			if len(shares) == 0 {
				continue
			}
			if held := merged[position]; len(held) > 0 {
				return nil, fmt.Errorf("annotation %s: container %s has devices of family %s here and of family %s in another annotation: a container has devices of one family",
					key, Container(&pod.Spec, position).Name, shares[0].Family, held[0].Family)
			}
			merged[position] = shares
		}
	}
	if merged == nil {
		merged = make(device.Allocation, containers)
	}
	return merged, nil
}

// Recorded reports whether the pod carries an allocation, readable or not. It does not allocate.
func Recorded(pod *corev1.Pod) bool {
	for key := range pod.Annotations {
		if classify.Allocation(key) != "" {
			return true
		}
	}
	return false
}

// AllocationAnnotations returns the annotations that record an allocation, one per family in it.
func AllocationAnnotations(a device.Allocation) map[string]string {
	annotations := map[string]string{}
	for _, shares := range a {
		for i := range shares {
			f := classify.Family(shares[i].Family)
			if f == nil {
				continue // no such family: placement makes shares only of devices that Node returned
			}
			if _, ok := annotations[f.PodAnnotation]; !ok {
				annotations[f.PodAnnotation] = wire.EncodeAllocation(f.Word, a)
			}
		}
	}
	return annotations
}
