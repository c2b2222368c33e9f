package nodesim

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet takes the pods of one node. It outlives the Node object, as kubelet does.
type kubelet struct {
	sim  *Simulator
	name string

	mu          sync.Mutex
	allocatable corev1.ResourceList
	active      map[types.UID]*corev1.Pod // admitted and not ended
	queue       []*podWorker              // seen and not yet looked at
	paused      bool
	changed     chan struct{} // capacity 1: queue or paused changed
}

func newKubelet(sim *Simulator, name string) *kubelet {
	return &kubelet{sim: sim, name: name, active: map[types.UID]*corev1.Pod{}, changed: make(chan struct{}, 1)}
}

// add queues a pod for admission.
func (k *kubelet) add(p *podWorker) {
	k.mu.Lock()
	k.queue = append(k.queue, p)
	k.mu.Unlock()
	k.wake()
}

func (k *kubelet) pause(paused bool) {
	k.mu.Lock()
	k.paused = paused
	k.mu.Unlock()
	k.wake()
}

func (k *kubelet) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// run admits pods one by one, until the simulator stops.
func (k *kubelet) run(ctx context.Context) {
	for {
		if p := k.next(); p != nil && ctx.Err() == nil {
			k.admit(ctx, p)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		}
	}
}

func (k *kubelet) next() *podWorker {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused || len(k.queue) == 0 {
		return nil
	}
	p := k.queue[0]
	k.queue = k.queue[1:]
	return p
}

// admit decides on one pod and lets it live. A pod that is gone meanwhile, or that is being deleted, gets
// nothing.
func (k *kubelet) admit(ctx context.Context, p *podWorker) {
	pod := p.latest()
	if p.isGone() {
		return
	}
	if pod.DeletionTimestamp != nil {
		k.sim.spawn(func() { p.run(ctx, nil) })
		return
	}
	rejected := k.decide(pod)
	if p.isGone() { // perhaps since before decide
		k.release(pod.UID)
	}
	k.sim.records.admitted(k.name, pod, rejected)
	p.admitted = true
	k.sim.spawn(func() { p.run(ctx, rejected) })
}

// decide judges a pod and counts it as active when it is admitted, in one step.
func (k *kubelet) decide(pod *corev1.Pod) *rejection {
	k.mu.Lock()
	defer k.mu.Unlock()
	rejected := judge(pod, slices.Collect(maps.Values(k.active)), k.allocatable)
	if rejected == nil {
		k.active[pod.UID] = pod
	}
	return rejected
}

// release takes back what a pod held, once it has ended.
func (k *kubelet) release(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.active, uid)
}

func (k *kubelet) configure(allocatable corev1.ResourceList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allocatable = allocatable
}
