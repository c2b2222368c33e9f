package kube

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// Classes returns the classes of a pod's containers in position order. Only an init container with restartPolicy Always
// is a sidecar.
func Classes(spec *corev1.PodSpec) phase.Pod {
	classes := make(phase.Pod, len(spec.InitContainers)+len(spec.Containers))
	for i := range classes {
		if i >= len(spec.InitContainers) {
			classes[i] = phase.App
		} else if p := spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			classes[i] = phase.Sidecar
		}
	}
	return classes
}

// Container returns the container at a position, nil if there is none.
func Container(spec *corev1.PodSpec, position int) *corev1.Container {
	inits := len(spec.InitContainers)
	switch {
	case position < 0 || position >= inits+len(spec.Containers):
		return nil
	case position < inits:
		return &spec.InitContainers[position]
	default:
		return &spec.Containers[position-inits]
	}
}

// Asks reports whether a container of the pod requests a device of any family. It does not allocate.
func Asks(spec *corev1.PodSpec) bool {
	for i := range spec.InitContainers {
		if classify.Asks(&spec.InitContainers[i].Resources) {
			return true
		}
	}
	for i := range spec.Containers {
		if classify.Asks(&spec.Containers[i].Resources) {
			return true
		}
	}
	return false
}

// Requests returns what each container requests, by position. The error names the container.
func Requests(spec *corev1.PodSpec) ([]device.Request, error) {
	requests := make([]device.Request, len(spec.InitContainers)+len(spec.Containers))
	for i := range requests {
		c := Container(spec, i)
		var err error
		if requests[i], err = classify.Request(&c.Resources); err != nil {
			return nil, fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	return requests, nil
}

// Release returns the pod's release policy: its annotation, or byDefault. With an error, which names the annotation and
// the accepted values, it returns phase.Hold, the policy that charges most.
func Release(pod *corev1.Pod, byDefault phase.Release) (phase.Release, error) {
	text, ok := pod.Annotations[wire.ReleaseAnnotation]
	if !ok {
		return byDefault, nil
	}
	release, err := phase.ParseRelease(text)
	if err != nil {
		return phase.Hold, fmt.Errorf("annotation %s: %w", wire.ReleaseAnnotation, err)
	}
	return release, nil
}

// LedgerPod returns the pod as the ledger sees it. Unreadable says what cannot be read. A pod whose release policy
// cannot be read holds its peak. A pod without a node or an allocation annotation has no allocation, whatever its
// containers request: which devices it uses is not known.
func LedgerPod(pod *corev1.Pod, byDefault phase.Release) ledger.Pod {
	classes := Classes(&pod.Spec)
	release, _ := Release(pod, byDefault)
	status := Status(pod)
	p := ledger.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Version: version(pod.ResourceVersion),
		Node:    pod.Spec.NodeName,
		Classes: classes,
		First:   classes.First(classes.Progress(status), release),
		Scope:   Scope(pod),
	}
	if p.Node == "" || status.Terminal {
		return p // it is charged nothing, so its record does not matter
	}
	allocation, err := Allocation(pod)
	if err != nil {
		p.Unreadable = err.Error()
		return p
	}
	if !allocation.IsEmpty() {
		p.Allocation = allocation
	}
	return p
}

// version returns a resourceVersion as a number, 0 if it is none (an object in a file has no version).
func version(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
