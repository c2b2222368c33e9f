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

// pods is all that a feed keeps of pods: nothing of one without devices, and of one with devices its UID. All else
// is in the book. An informer would keep an object of each.
type pods struct {
	shown    map[types.UID]struct{} // that the watch has shown and that are not gone: a list does not say what is
	problems map[types.UID]string   // what was reported of those with which something is wrong
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
	return cache.NewReflectorWithOptions(source, &corev1.Pod{}, toBook{f}, cache.ReflectorOptions{Name: "bound pods"})
}

// toBook is the cache.TransformingStore of a feed's pods, which stores nothing: it tells the book.
type toBook struct{ *Feed }

// Transformer reduces what is kept of a list until it is complete.
func (toBook) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok && !Tracked(pod) {
			return nil, nil
		}
		return Transform(object)
	}
}

// Add tells of a pod that is new to the watch.
func (b toBook) Add(object any) error { return b.Update(object) }

// Update tells of a pod as it is now.
func (b toBook) Update(object any) error {
	b.feeding.Lock()
	defer b.feeding.Unlock()
	if pod, ok := object.(*corev1.Pod); ok {
		b.show(pod)
	}
	return nil
}

// Delete tells of a pod that is gone.
func (b toBook) Delete(object any) error {
	b.feeding.Lock()
	defer b.feeding.Unlock()
	if pod, ok := object.(*corev1.Pod); ok {
		b.gone(pod.UID, pod.ResourceVersion)
	}
	return nil
}

// Replace tells of all pods that there are, at first and after a gap in the watch, and of those that are gone.
func (b toBook) Replace(objects []any, _ string) error {
	b.feeding.Lock()
	defer b.feeding.Unlock()
	there := make(map[types.UID]bool, len(b.pods.shown))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			there[pod.UID] = true
		}
	}
	for uid := range b.pods.shown {
		if !there[uid] {
			b.gone(uid, "")
		}
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			b.show(pod)
		}
	}
	b.listed.Store(true)
	return nil
}

// Resync is never called: the reflector has no period.
func (toBook) Resync() error { return nil }

// show tells the book what the watch shows of a pod. feeding is held.
func (f *Feed) show(pod *corev1.Pod) {
	if !Tracked(pod) {
		f.gone(pod.UID, pod.ResourceVersion) // its record was taken away
		return
	}
	truth := LedgerPod(pod, f.o.Release)
	before := f.book.Pod(truth.UID)
	var old *corev1.Pod
	if f.hasShown(pod.UID) {
		old = identity(pod.UID)
	}
	f.o.OnPod(old, pod, before, f.book.Observe(truth))
	if old == nil {
		uid := pod.UID
		if e := f.book.Pod(truth.UID); e != nil {
			uid = types.UID(e.UID) // which the book keeps anyway
		}
		f.pods.shown[uid] = struct{}{}
	}
	f.saw(pod.ResourceVersion)
	err := PodProblem(pod, &truth, f.o.Release)
	if err == nil {
		delete(f.pods.problems, pod.UID)
	} else if f.pods.problems[pod.UID] != err.Error() {
		f.pods.problems[pod.UID] = err.Error()
		f.o.OnProblem(pod, err)
	}
}

// gone takes a pod off the books that the watch has shown, if it has. feeding is held.
func (f *Feed) gone(uid types.UID, version string) {
	if !f.hasShown(uid) {
		return
	}
	delete(f.pods.shown, uid)
	delete(f.pods.problems, uid)
	f.forget(uid)
	f.saw(version)
}

// hasShown reports whether the watch has shown a pod, and not its end. feeding is held.
func (f *Feed) hasShown(uid types.UID) bool {
	_, ok := f.pods.shown[uid]
	return ok
}

// saw notes that the book has been told of a change of a pod. A list tells in no order of versions.
func (f *Feed) saw(resourceVersion string) {
	f.seen.Store(max(f.seen.Load(), version(resourceVersion)))
}

// forget takes off the books what they hold for a pod that is gone, and tells so; Relist may have done the first
// before the end was seen. feeding is held.
func (f *Feed) forget(uid types.UID) {
	var d ledger.Delta
	before := f.book.Pod(string(uid))
	if before != nil {
		d, _ = f.book.Remove(string(uid)) // no error: nobody else forgets bound pods
	}
	f.o.OnPod(identity(uid), nil, before, d)
}

func identity(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
