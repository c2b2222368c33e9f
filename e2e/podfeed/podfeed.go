// Package podfeed follows the pods of a cluster in the order in which the API server changed them. An informer keeps
// that order for each pod only.
package podfeed

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Change is what the API server shows at one moment.
type Change struct {
	Pods []*corev1.Pod // as they are now
	Gone []*corev1.Pod // as they were last
	List bool          // Pods is all there are: at the start, and after a gap of the watch
}

// Feed shows each change to one function, one change at a time.
type Feed struct {
	reflector *cache.Reflector
	see       func(Change)
	pods      map[types.UID]*corev1.Pod
	listed    chan struct{}
}

// New returns a feed of the pods that a field selector selects.
func New(client kubernetes.Interface, selector fields.Selector, see func(Change)) *Feed {
	f := &Feed{see: see, pods: map[types.UID]*corev1.Pod{}, listed: make(chan struct{})}
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, selector)
	f.reflector = cache.NewReflectorWithOptions(pods, &corev1.Pod{}, store{f}, cache.ReflectorOptions{Name: "podfeed"})
	return f
}

// Run follows the pods until ctx ends. An API server that is away is asked again.
func (f *Feed) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = f.reflector.ListAndWatchWithContext(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Listed is closed after the first list.
func (f *Feed) Listed() <-chan struct{} { return f.listed }

// store is where the reflector puts what it learns. Its methods are called by the reflector alone.
type store struct{ *Feed }

func (s store) Add(object any) error {
	pod := object.(*corev1.Pod)
	s.pods[pod.UID] = pod
	s.see(Change{Pods: []*corev1.Pod{pod}})
	return nil
}

func (s store) Update(object any) error { return s.Add(object) }

func (s store) Delete(object any) error {
	pod := object.(*corev1.Pod)
	delete(s.pods, pod.UID)
	s.see(Change{Gone: []*corev1.Pod{pod}})
	return nil
}

func (s store) Replace(objects []any, _ string) error {
	change := Change{List: true}
	gone := s.pods
	s.Feed.pods = map[types.UID]*corev1.Pod{}
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		change.Pods, s.pods[pod.UID] = append(change.Pods, pod), pod
		delete(gone, pod.UID)
	}
	for _, pod := range gone {
		change.Gone = append(change.Gone, pod)
	}
	s.see(change)
	select {
	case <-s.listed:
	default:
		close(s.listed)
	}
	return nil
}

func (s store) Resync() error { return nil }
