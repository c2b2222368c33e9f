package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// pods is all that a feed stores of pods: nothing of one without devices, the UID of one with devices. An informer
// would store an object of each; the book has the rest.
type pods struct {
	shown    map[types.UID]struct{} // shown by the watch and not deleted; a list does not say which were deleted
	problems map[types.UID]string   // the problem that was last reported of a pod
}

// bound selects the pods that have a node.
func bound(o *metav1.ListOptions) {
	o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
}

// reflector returns the watch of pods, which has not begun.
func (f *Feed) reflector() *cache.Reflector {
	pods := f.client.CoreV1().Pods(metav1.NamespaceAll)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			bound(&o)
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			bound(&o)
			return pods.Watch(ctx, o)
		},
	}, f.client)
	return cache.NewReflectorWithOptions(source, &corev1.Pod{}, podStore{f}, cache.ReflectorOptions{Name: "bound pods"})
}

// podStore is the cache.TransformingStore of the watch of pods. It updates the book and stores no objects.
type podStore struct{ *Feed }

// Transformer reduces the pods of a list while it is incomplete.
func (podStore) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok && !Tracked(pod) {
			return nil, nil
		}
		return Transform(object)
	}
}

// Add books a pod that is new to the watch.
func (s podStore) Add(object any) error { return s.Update(object) }

// Update books a pod as it is now.
func (s podStore) Update(object any) error {
	s.feeding.Lock()
	defer s.feeding.Unlock()
	if pod, ok := object.(*corev1.Pod); ok {
		s.show(pod)
	}
	return nil
}

// Delete removes a pod from the book.
func (s podStore) Delete(object any) error {
	s.feeding.Lock()
	defer s.feeding.Unlock()
	if pod, ok := object.(*corev1.Pod); ok {
		s.gone(pod.UID, pod.ResourceVersion)
	}
	return nil
}

// Replace books all pods that exist, at first and after a gap in the watch, and removes the others.
func (s podStore) Replace(objects []any, _ string) error {
	s.feeding.Lock()
	defer s.feeding.Unlock()
	exist := make(map[types.UID]bool, len(s.pods.shown))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			exist[pod.UID] = true
		}
	}
	for uid := range s.pods.shown {
		if !exist[uid] {
			s.gone(uid, "")
		}
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			s.show(pod)
		}
	}
	s.listed.Store(true)
	return nil
}

// Resync is never called: the reflector has no period.
func (podStore) Resync() error { return nil }

// show books what the watch shows of a pod. feeding is held.
func (f *Feed) show(pod *corev1.Pod) {
	if !Tracked(pod) {
		f.gone(pod.UID, pod.ResourceVersion) // its record was removed
		return
	}
	facts := LedgerPod(pod, f.o.Release)
	before := f.book.Pod(facts.UID)
	var old *corev1.Pod
	if f.hasShown(pod.UID) {
		old = identity(pod.UID)
	}
	f.o.Observer.ObservePod(old, pod, before, f.book.Observe(facts))
	if old == nil {
		uid := pod.UID
		if e := f.book.Pod(facts.UID); e != nil {
			uid = types.UID(e.UID) // the book's copy, so that there is one in memory
		}
		f.pods.shown[uid] = struct{}{}
	}
	f.saw(pod.ResourceVersion)
	err := PodProblem(pod, &facts, f.o.Release)
	if err == nil {
		delete(f.pods.problems, pod.UID)
	} else if f.pods.problems[pod.UID] != err.Error() {
		f.pods.problems[pod.UID] = err.Error()
		f.o.Observer.ObserveProblem("Pod", pod.Namespace+"/"+pod.Name, err)
	}
}

// gone removes a pod that the watch has shown from the book. feeding is held.
func (f *Feed) gone(uid types.UID, version string) {
	if !f.hasShown(uid) {
		return
	}
	delete(f.pods.shown, uid)
	delete(f.pods.problems, uid)
	f.remove(uid)
	f.saw(version)
}

// hasShown reports whether the watch has shown a pod and not its deletion. feeding is held.
func (f *Feed) hasShown(uid types.UID) bool {
	_, ok := f.pods.shown[uid]
	return ok
}

// saw notes that the book has a change of a pod. A list is in no order of versions.
func (f *Feed) saw(resourceVersion string) {
	f.seen.Store(max(f.seen.Load(), version(resourceVersion)))
}

// remove takes a deleted pod off the book, unless Relist already has. feeding is held.
func (f *Feed) remove(uid types.UID) {
	var d ledger.Delta
	before := f.book.Pod(string(uid))
	if before != nil {
		d, _ = f.book.Remove(string(uid)) // cannot fail: only the feed removes bound pods
	}
	f.o.Observer.ObservePod(identity(uid), nil, before, d)
}

func identity(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
