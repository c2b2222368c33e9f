package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// maxSelected bounds a selector's values: each is compared with every device of a cluster while kube-scheduler waits,
// and an annotation has room for 100,000.
const maxSelected = 1024

// PlacementPod returns the pod as placement sees it: requests, and selectors and policies from its annotations; node
// and dev are the default policies. Errors name the annotation and the accepted values, or the container and its
// resource.
func PlacementPod(pod *corev1.Pod, node, dev placement.Policy) (*placement.Pod, error) {
	requests, err := Requests(&pod.Spec)
	if err != nil {
		return nil, err
	}
	p := &placement.Pod{Classes: Classes(&pod.Spec), Requests: requests, NodePolicy: node, DevicePolicy: dev}
	if err := readAnnotations(pod, p); err != nil {
		return nil, err
	}
	return p, nil
}

// CheckAnnotations returns an error if an annotation that users set has an invalid value. It names the annotation and
// the accepted values.
func CheckAnnotations(pod *corev1.Pod) error {
	if err := readAnnotations(pod, &placement.Pod{}); err != nil {
		return err
	}
	_, err := Release(pod, phase.PerInit)
	return err
}

// readAnnotations sets in p what annotations say about placement.
func readAnnotations(pod *corev1.Pod, p *placement.Pod) (err error) {
	p.Selector.Family = wire.SelectorFamily
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
			return fmt.Errorf("annotation %s: %d values are more than %d: name fewer devices, or models instead",
				list.key, len(*list.values), maxSelected)
		}
	}
	if p.NUMABind, err = annotated(pod, wire.NUMABindAnnotation, wire.ParseNUMABind, false); err != nil {
		return err
	}
	if p.NodePolicy, err = annotated(pod, wire.NodePolicyAnnotation, wire.ParsePolicy, p.NodePolicy); err != nil {
		return err
	}
	if p.DevicePolicy, err = annotated(pod, wire.DevicePolicyAnnotation, wire.ParsePolicy, p.DevicePolicy); err != nil {
		return err
	}
	alignment, err := Alignment(pod)
	if alignment == wire.Strict {
		p.StrictFamily = refitFamily()
	}
	return err
}

// refitFamily returns the type word of the family that supports refit, the only one whose devices have to agree with
// kubelet's ids.
func refitFamily() string {
	for _, f := range classify.Families() {
		if f.Refit {
			return f.Word
		}
	}
	return ""
}

// Alignment returns whether and how the pod opted in to NUMA refit. The error names the annotation and the accepted
// values.
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
