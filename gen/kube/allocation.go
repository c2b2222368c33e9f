package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// Allocation reads what each container of the pod holds from all families' annotations. The result has an entry for
// every container, empty ones if there is no annotation. The error names the annotation and the part; if several
// annotations are invalid, the first by key.
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
				return nil, fmt.Errorf("annotation %s: container %s has devices of family %s here and of family %s in "+
					"another annotation: a container has devices of one family",
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

// Recorded reports whether the pod has an allocation annotation, readable or not. It does not allocate.
func Recorded(pod *corev1.Pod) bool {
	for key := range pod.Annotations {
		if classify.Allocation(key) != "" {
			return true
		}
	}
	return false
}

// AllocationAnnotations returns the annotations that record an allocation, one per family.
func AllocationAnnotations(a device.Allocation) map[string]string {
	annotations := map[string]string{}
	for _, shares := range a {
		for i := range shares {
			f := classify.Family(shares[i].Family)
			if f == nil {
				continue // unknown family: does not occur, placement uses only devices that Node returned
			}
			if _, ok := annotations[f.PodAnnotation]; !ok {
				annotations[f.PodAnnotation] = wire.EncodeAllocation(f.Word, a)
			}
		}
	}
	return annotations
}
