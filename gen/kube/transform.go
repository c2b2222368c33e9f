package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
)

// Transform is a cache.TransformFunc. It reduces watched objects to what the functions of this package read: a pod
// without devices to its key (a PartialObjectMetadata); other pods, nodes and quotas to what concerns devices. Every
// function of this package returns the same for the reduced object. Other objects pass unchanged, as do reduced ones.
func Transform(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		if !Tracked(o) {
			return &metav1.PartialObjectMetadata{ObjectMeta: key(&o.ObjectMeta)}, nil
		}
		return reducePod(o), nil
	case *corev1.Node:
		return reduceNode(o), nil
	case *corev1.ResourceQuota:
		return &corev1.ResourceQuota{ObjectMeta: key(&o.ObjectMeta), Spec: o.Spec}, nil
	default:
		return object, nil
	}
}

// Tracked reports whether a pod concerns the ledger: a container requests a device, or the pod has an annotation that
// only phasegpu writes. It does not allocate.
func Tracked(pod *corev1.Pod) bool {
	for annotation := range pod.Annotations {
		if classify.Protected(annotation) {
			return true
		}
	}
	return Asks(&pod.Spec)
}

func key(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// annotations are the pod annotations that users set and this package reads. An array is not allocated on the heap.
func annotations() [10]string {
	return [...]string{
		wire.NodePolicyAnnotation, wire.DevicePolicyAnnotation, wire.NUMAAlignment, wire.NUMABindAnnotation,
		wire.UseUUIDAnnotation, wire.NoUseUUIDAnnotation, wire.UseTypeAnnotation, wire.NoUseTypeAnnotation,
		wire.ReleaseAnnotation, wire.NudgeAnnotation,
	}
}

// ours reports whether this package reads a pod annotation.
func ours(annotation string) bool {
	for _, known := range annotations() {
		if annotation == known {
			return true
		}
	}
	return classify.Protected(annotation)
}

// kept returns the entries of a map whose keys are wanted, nil if there are none.
func kept[K comparable, V any](all map[K]V, wanted func(K) bool) map[K]V {
	var some map[K]V
	for k, v := range all {
		if !wanted(k) {
			continue
		}
		if some == nil {
			some = make(map[K]V)
		}
		some[k] = v
	}
	return some
}
