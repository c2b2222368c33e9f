package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// known is what a feed's informer keeps of a pod with devices: which pod it is. All else is in the book once
// that has been told, and a pod, even a reduced one, would take ten times as much.
type known struct {
	namespace, name string
	uid             types.UID
	version         string      // resourceVersion
	problem         string      // what was reported of it
	pod             *corev1.Pod // reduced; nil once the book has been told
}

// keep is the cache.TransformFunc of a feed's pods: one with devices becomes a *known, another its key and
// nothing else. What has been transformed passes as it is.
func (f *Feed) keep(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	switch {
	case !ok:
		return object, nil
	case !Tracked(pod):
		return cache.ExplicitKey(pod.Namespace + "/" + pod.Name), nil
	}
	k := &known{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, version: pod.ResourceVersion, pod: reducePod(pod)}
	if e := f.book.Pod(string(pod.UID)); e != nil { // it has these already, and need not have them twice
		k.namespace, k.name, k.uid = e.Namespace, e.Name, types.UID(e.UID)
	}
	return k, nil
}

// knownOf returns what an informer keeps of a pod, nil for one without devices.
func knownOf(object any) *known {
	k, _ := object.(*known)
	return k
}

// GetObjectMeta makes it a metav1.ObjectMetaAccessor, by which an informer finds key and version.
func (k *known) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, UID: k.uid, ResourceVersion: k.version}
}

func (k *known) id() types.UID {
	if k == nil {
		return ""
	}
	return k.uid
}

// object returns the pod reduced to its key, nil for none.
func (k *known) object() *corev1.Pod {
	if k == nil {
		return nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, UID: k.uid, ResourceVersion: k.version}}
}
