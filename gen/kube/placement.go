package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// maxSelected bounds a selector's values: each is compared with every device of a cluster while
// kube-scheduler waits, and an annotation has room for 100,000.
const maxSelected = 1024

// PlacementPod returns the pod as placement sees it: requests, selectors and policies from its
// annotations, the policies node and dev where it sets none. Errors name the annotation and the accepted
// values, or the container and its resource.
func PlacementPod(pod *corev1.Pod, node, dev placement.Policy) (*placement.Pod, error) {
	requests, err := Requests(&pod.Spec)
	if err != nil {
		return nil, err
	}
	p := &placement.Pod{
		Classes:  Classes(&pod.Spec),
		Requests: requests,
		Selector: placement.Selector{Family: wire.SelectorFamily},
	}
	for _, list := range []struct {
		key    string
		values *[]string
	}{
		{wire.UseUUIDAnnotation, &p.Selector.UseUUIDs},
		{wire.NoUseUUIDAnnotation, &p.Selector.AvoidUUIDs},
		{wire.UseTypeAnnotation, &p.Selector.UseModels},
		{wire.NoUseTypeAnnotation, &p.Selector.AvoidModels},
	} {
		if *list.values = wire.DecodeList(pod.Annotations[list.key]); len(*list.values) > maxSelected {
			return nil, fmt.Errorf("annotation %s: %d values are more than %d: name fewer devices, or models instead", list.key, len(*list.values), maxSelected)
		}
	}
	if p.NUMABind, err = annotated(pod, wire.NUMABindAnnotation, wire.ParseNUMABind, false); err != nil {
		return nil, err
	}
	if p.NodePolicy, err = annotated(pod, wire.NodePolicyAnnotation, wire.ParsePolicy, node); err != nil {
		return nil, err
	}
	if p.DevicePolicy, err = annotated(pod, wire.DevicePolicyAnnotation, wire.ParsePolicy, dev); err != nil {
		return nil, err
	}
	alignment, err := Alignment(pod)
	if err != nil {
		return nil, err
	}
	if alignment == wire.Strict {
		p.StrictFamily = refitFamily()
	}
	return p, nil
}

// refitFamily returns the type word of the family that supports refit; of the others nobody compares
// devices with kubelet's ids.
func refitFamily() string {
	for _, f := range classify.Families() {
		if f.Refit {
			return f.Word
		}
	}
	return ""
}

// Alignment returns whether and how the pod opted in to NUMA refit. The error names the annotation and
// the accepted values.
func Alignment(pod *corev1.Pod) (wire.Alignment, error) {
	return annotated(pod, wire.NUMAAlignment, wire.ParseAlignment, wire.Recorded)
}

// Movable reports whether refit may change the pod's record between its binding and kubelet's report.
func Movable(pod *corev1.Pod) bool {
	alignment, err := Alignment(pod)
	return err != nil || alignment != wire.Recorded
}

// annotated parses an annotation of the pod; a pod without it has the value absent.
func annotated[T any](pod *corev1.Pod, key string, parse func(string) (T, error), absent T) (T, error) {
	text, ok := pod.Annotations[key]
	if !ok {
		return absent, nil
	}
	value, err := parse(text)
	if err != nil {
		return absent, fmt.Errorf("annotation %s: %w", key, err)
	}
	return value, nil
}
