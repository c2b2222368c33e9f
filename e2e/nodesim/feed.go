package nodesim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// feed takes the bound pods straight from a reflector, in the order in which the API server changed them
// (an informer's queue keeps the order per pod only).
type feed struct {
	sim    *Simulator
	pods   map[types.UID]*corev1.Pod
	synced chan struct{} // closed after the first list
}

// watch starts the feed and waits for its first list.
func (s *Simulator) watch(ctx context.Context) error {
	f := &feed{sim: s, pods: map[types.UID]*corev1.Pod{}, synced: make(chan struct{})}
	bound := cache.NewFilteredListWatchFromClient(s.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		})
	reflector := cache.NewReflectorWithOptions(bound, &corev1.Pod{}, f, cache.ReflectorOptions{Name: "nodesim"})
	s.spawn(func() {
		for s.ctx.Err() == nil {
			_ = reflector.ListAndWatchWithContext(s.ctx) // an API server that is away comes back
			select {
			case <-s.ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	select {
	case <-f.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("node simulation: listing pods: %w", ctx.Err())
	}
}

// Add and Update take a pod as it is now. All methods of a feed are called by its reflector alone.
func (f *feed) Add(object any) error {
	pod := object.(*corev1.Pod)
	f.pods[pod.UID] = pod
	f.sim.records.observed(pod)
	f.sim.observe(pod)
	return nil
}

// Update is Add.
func (f *feed) Update(object any) error { return f.Add(object) }

// Delete takes a pod that is gone.
func (f *feed) Delete(object any) error {
	pod := object.(*corev1.Pod)
	delete(f.pods, pod.UID)
	f.sim.records.gone(pod)
	f.sim.forget(pod.UID)
	return nil
}

// Replace takes all pods, at the start and after a gap of the watch.
func (f *feed) Replace(objects []any, _ string) error {
	there := map[types.UID]bool{}
	for _, object := range objects {
		there[object.(*corev1.Pod).UID] = true
	}
	for uid, pod := range f.pods {
		if !there[uid] {
			if err := f.Delete(pod); err != nil {
				return err
			}
		}
	}
	f.sim.records.listed()
	for _, object := range objects {
		if err := f.Add(object); err != nil {
			return err
		}
	}
	select {
	case <-f.synced:
	default:
		close(f.synced)
	}
	return nil
}

// Resync does nothing: the feed needs no reminders.
func (f *feed) Resync() error { return nil }

// observe hands a pod's state to its worker. A pod that has ended before it was seen gets none.
func (s *Simulator) observe(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.pods[pod.UID]; ok {
		p.update(pod)
		return
	}
	if ended(pod.Status.Phase) {
		return
	}
	p := newPodWorker(s, pod)
	s.pods[pod.UID] = p
	close(s.more)
	s.more = make(chan struct{})
	if k, ok := s.kubelets[p.node]; ok {
		k.add(p)
	}
}

func (s *Simulator) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.pods[uid]; ok {
		close(p.gone)
		delete(s.pods, uid)
		if k, ok := s.kubelets[p.node]; ok {
			k.release(uid)
		}
	}
}

// worker waits for the worker of a pod, that is until the pod is bound and seen. A pod without UID is
// looked up by its name.
func (s *Simulator) worker(ctx context.Context, pod *corev1.Pod) (*podWorker, error) {
	for {
		s.mu.Lock()
		p, more := s.find(pod), s.more
		s.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			return nil, fmt.Errorf("pod %s: the simulation has ended", nameOf(pod))
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s is on no simulated node: %w", nameOf(pod), ctx.Err())
		}
	}
}

func (s *Simulator) find(pod *corev1.Pod) *podWorker {
	if pod.UID != "" {
		return s.pods[pod.UID]
	}
	for _, p := range s.pods {
		if p.name == nameOf(pod) {
			return p
		}
	}
	return nil
}
