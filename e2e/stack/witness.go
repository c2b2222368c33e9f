package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/podfeed"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Witness sees every state of every pod of the cluster, in the order of the API server's changes, and computes from
// these alone what is reserved on each device at each moment.
type Witness struct {
	mu       sync.Mutex
	capacity map[string]Amount // by "node/uuid"
	reserved map[string]Amount
	over     []string
	pods     map[types.NamespacedName]*seen
	changed  chan struct{} // closed and replaced when a pod changes
}

type seen struct {
	pod      *corev1.Pod // as it was last
	gone     bool
	bound    time.Time // when it was first seen with a node
	onDevice map[string]Amount
}

// Witness watches until ctx ends. It knows the capacity of the given nodes' devices.
func (c *Cluster) Witness(ctx context.Context, nodes ...nodesim.Node) (*Witness, error) {
	w := &Witness{
		capacity: map[string]Amount{}, reserved: map[string]Amount{},
		pods: map[types.NamespacedName]*seen{}, changed: make(chan struct{}),
	}
	for _, n := range nodes {
		for _, d := range n.Devices {
			w.capacity[n.Name+"/"+d.UUID] = Amount(d.Capacity)
		}
	}
	feed := podfeed.New(c.Client, fields.Everything(), w.see)
	go feed.Run(ctx)
	select {
	case <-feed.Listed():
		return w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("witness: listing pods: %w", ctx.Err())
	}
}

// Await waits until a condition of a pod holds, and returns the pod and when it was first seen with a node.
func (w *Witness) Await(ctx context.Context, pod *corev1.Pod, what string, holds Condition) (*corev1.Pod, time.Time,
	error) {
	return w.Within(ctx, EventuallyTimeout, pod, what, holds)
}

// Within is Await with another time limit.
func (w *Witness) Within(
	ctx context.Context, most time.Duration, pod *corev1.Pod, what string, holds Condition,
) (*corev1.Pod, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		w.mu.Lock()
		now, changed := w.pods[nameOf(pod)], w.changed
		w.mu.Unlock()
		err := errors.New("there is no such pod")
		if now != nil && !now.gone {
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

// Last returns a pod as it was seen last, and whether it is gone; nil if it was never seen.
func (w *Witness) Last(pod *corev1.Pod) (last *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.pods[nameOf(pod)]; now != nil {
		return now.pod, now.gone
	}
	return nil, false
}

// AwaitBound waits until a pod has a node, and returns it and when that was seen.
func (w *Witness) AwaitBound(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, time.Time, error) {
	return w.Await(ctx, pod, "is bound", Bound)
}

// AwaitUnschedulable waits until kube-scheduler has found no node for a pod, with all of these words in its reason, and
// returns the reason.
func (w *Witness) AwaitUnschedulable(ctx context.Context, pod *corev1.Pod, words ...string) (string, error) {
	p, _, err := w.Await(ctx, pod, "is unschedulable for the right reason", Unschedulable(words...))
	if err != nil {
		return "", err
	}
	return UnschedulableReason(p), nil
}

// AwaitPhase waits until a pod is in a phase.
func (w *Witness) AwaitPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	_, _, err := w.Await(ctx, pod, "is "+string(phase), InPhase(phase))
	return err
}

// OverCommitted returns the moments at which more was reserved on a device than it has.
func (w *Witness) OverCommitted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.over)
}

// see takes a change, and looks at all devices after it.
func (w *Witness) see(c podfeed.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := "a list"
	for _, pod := range c.Gone {
		if old := w.pods[nameOf(pod)]; old != nil && old.pod.UID == pod.UID {
			w.charge(old.onDevice, -1)
			old.gone, old.onDevice = true, nil
		}
		after = "the end of pod " + nameOf(pod).String()
	}
	for _, pod := range c.Pods {
		w.take(pod)
		after = "pod " + nameOf(pod).String()
	}
	for key, r := range w.reserved {
		c, known := w.capacity[key]
		if known && (r.Slots > c.Slots || r.MemoryMiB > c.MemoryMiB || r.Cores > c.Cores) {
			w.over = append(w.over, fmt.Sprintf("%s after %s: %+v of %+v", key, after, r, c))
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Witness) take(pod *corev1.Pod) {
	now := &seen{pod: pod}
	if old := w.pods[nameOf(pod)]; old != nil {
		w.charge(old.onDevice, -1)
		if old.pod.UID == pod.UID {
			now.bound = old.bound
		}
	}
	if now.bound.IsZero() && pod.Spec.NodeName != "" {
		now.bound = time.Now()
	}
	p := kube.LedgerPod(pod, phase.PerInit)
	if p.Unreadable != "" {
		w.over = append(w.over, fmt.Sprintf("pod %s: %s", nameOf(pod), p.Unreadable))
	}
	if p.Node != "" {
		now.onDevice, _ = remaining(&p)
	}
	w.charge(now.onDevice, 1)
	w.pods[nameOf(pod)] = now
}

func (w *Witness) charge(onDevice map[string]Amount, times int64) {
	for key, a := range onDevice {
		r := w.reserved[key]
		w.reserved[key] = Amount{r.Slots + times*a.Slots, r.MemoryMiB + times*a.MemoryMiB, r.Cores + times*a.Cores}
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
