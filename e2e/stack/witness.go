package stack

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Witness sees every pod of the cluster in every state that the API server tells, in the order of its changes,
// and works out from these alone what is reserved on each device at each moment.
type Witness struct {
	synced chan struct{} // closed after the first list

	mu       sync.Mutex
	capacity map[string]Amount // by "node/uuid"
	reserved map[string]Amount
	over     []string
	pods     map[types.NamespacedName]*seen
	gone     map[types.NamespacedName]*corev1.Pod // as they were last
	changed  chan struct{}                        // closed and replaced when a pod changes
}

type seen struct {
	pod      *corev1.Pod
	bound    time.Time // when it was first seen with a node
	onDevice map[string]Amount
}

// Witness watches until ctx ends. It knows the capacity of the given nodes' devices.
func (c *Cluster) Witness(ctx context.Context, nodes ...nodesim.Node) (*Witness, error) {
	w := &Witness{
		synced: make(chan struct{}), capacity: map[string]Amount{}, reserved: map[string]Amount{},
		pods: map[types.NamespacedName]*seen{}, gone: map[types.NamespacedName]*corev1.Pod{}, changed: make(chan struct{}),
	}
	for _, n := range nodes {
		for _, d := range n.Devices {
			w.capacity[n.Name+"/"+d.UUID] = Amount(d.Capacity)
		}
	}
	all := cache.NewListWatchFromClient(c.Client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(all, &corev1.Pod{}, store{w}, cache.ReflectorOptions{Name: "witness"})
	go func() {
		for ctx.Err() == nil {
			_ = reflector.ListAndWatchWithContext(ctx) // an API server that is away comes back
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	select {
	case <-w.synced:
		return w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("witness: listing pods: %w", ctx.Err())
	}
}

// Await waits until the witness sees a pod that holds, and returns it and when it was first seen with a node.
func (w *Witness) Await(ctx context.Context, pod *corev1.Pod, what string, holds func(*corev1.Pod) error) (*corev1.Pod, time.Time, error) {
	return w.Within(ctx, EventuallyTimeout, pod, what, holds)
}

// Within is Await for what may take longer, or less.
func (w *Witness) Within(ctx context.Context, most time.Duration, pod *corev1.Pod, what string, holds func(*corev1.Pod) error) (*corev1.Pod, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		w.mu.Lock()
		now, changed := w.pods[nameOf(pod)], w.changed
		w.mu.Unlock()
		err := error(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod.Name))
		if now != nil {
			if err = holds(now.pod); err == nil {
				return now.pod, now.bound, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, time.Time{}, fmt.Errorf("waited in vain: pod %s %s: %w", nameOf(pod), what, err)
		}
	}
}

// Last returns a pod as it was seen last, even if it is gone; nil if it was never seen.
func (w *Witness) Last(pod *corev1.Pod) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.pods[nameOf(pod)]; now != nil {
		return now.pod
	}
	return w.gone[nameOf(pod)]
}

// Gone reports whether a pod was seen and is gone.
func (w *Witness) Gone(pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[nameOf(pod)] == nil && w.gone[nameOf(pod)] != nil
}

// AwaitBound waits until a pod has a node, and returns it and when that was seen.
func (w *Witness) AwaitBound(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, time.Time, error) {
	return w.Await(ctx, pod, "is bound", func(p *corev1.Pod) error {
		if p.Spec.NodeName == "" {
			return fmt.Errorf("it has no node: %s", unschedulable(p))
		}
		return nil
	})
}

// AwaitUnschedulable waits until kube-scheduler has found no node for a pod, and returns its reason.
func (w *Witness) AwaitUnschedulable(ctx context.Context, pod *corev1.Pod) (string, error) {
	p, _, err := w.Await(ctx, pod, "is found unschedulable", func(p *corev1.Pod) error {
		switch {
		case p.Spec.NodeName != "":
			return fmt.Errorf("it is on node %s", p.Spec.NodeName)
		case unschedulable(p) == "":
			return fmt.Errorf("kube-scheduler has not yet said anything of it")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return unschedulable(p), nil
}

// AwaitPhase waits until a pod is in a phase.
func (w *Witness) AwaitPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	_, _, err := w.Await(ctx, pod, "is "+string(phase), func(p *corev1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("it is %s on node %q: %s %s %s", p.Status.Phase, p.Spec.NodeName, p.Status.Reason, p.Status.Message, unschedulable(p))
		}
		return nil
	})
	return err
}

// OverCommitted returns the moments at which more was reserved on a device than it has.
func (w *Witness) OverCommitted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.over...)
}

// see takes a pod's state, nil when it is gone.
func (w *Witness) see(name types.NamespacedName, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(name, pod)
	w.check(fmt.Sprintf("pod %s", name))
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Witness) take(name types.NamespacedName, pod *corev1.Pod) {
	old := w.pods[name]
	if old != nil {
		for key, a := range old.onDevice {
			r := w.reserved[key]
			w.reserved[key] = Amount{r.Slots - a.Slots, r.MemoryMiB - a.MemoryMiB, r.Cores - a.Cores}
		}
	}
	if pod == nil {
		if old != nil {
			w.gone[name] = old.pod
		}
		delete(w.pods, name)
		return
	}
	now := &seen{pod: pod}
	if old != nil && old.pod.UID == pod.UID {
		now.bound = old.bound
	}
	if now.bound.IsZero() && pod.Spec.NodeName != "" {
		now.bound = time.Now()
	}
	p := kube.LedgerPod(pod, phase.PerInit)
	if p.Unreadable != "" {
		w.over = append(w.over, fmt.Sprintf("pod %s: %s", name, p.Unreadable))
	}
	if p.Node != "" {
		now.onDevice, _ = remaining(&p)
	}
	for key, a := range now.onDevice {
		r := w.reserved[key]
		w.reserved[key] = Amount{r.Slots + a.Slots, r.MemoryMiB + a.MemoryMiB, r.Cores + a.Cores}
	}
	w.pods[name] = now
}

// check looks at all devices after something changed.
func (w *Witness) check(after string) {
	for key, r := range w.reserved {
		c, known := w.capacity[key]
		if known && (r.Slots > c.Slots || r.MemoryMiB > c.MemoryMiB || r.Cores > c.Cores) {
			w.over = append(w.over, fmt.Sprintf("%s after %s: %+v of %+v", key, after, r, c))
		}
	}
}

// store is where the reflector puts what it learns.
type store struct{ w *Witness }

func (s store) Add(object any) error {
	pod := object.(*corev1.Pod)
	s.w.see(nameOf(pod), pod)
	return nil
}

func (s store) Update(object any) error { return s.Add(object) }

func (s store) Delete(object any) error {
	s.w.see(nameOf(object.(*corev1.Pod)), nil)
	return nil
}

// Replace takes all pods as they are at one moment, at the start and after a gap of the watch.
func (s store) Replace(objects []any, _ string) error {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[types.NamespacedName]bool{}
	for _, object := range objects {
		there[nameOf(object.(*corev1.Pod))] = true
	}
	for name := range w.pods {
		if !there[name] {
			w.take(name, nil)
		}
	}
	for _, object := range objects {
		w.take(nameOf(object.(*corev1.Pod)), object.(*corev1.Pod))
	}
	w.check("a list")
	close(w.changed)
	w.changed = make(chan struct{})
	select {
	case <-w.synced:
	default:
		close(w.synced)
	}
	return nil
}

func (s store) Resync() error { return nil }

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
