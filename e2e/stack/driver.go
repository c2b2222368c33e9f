package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reporter is a test, or the demo. Fatalf ends it.
type Reporter interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Containers is what runs the containers of a cluster's pods.
type Containers interface {
	// AwaitRunning waits until a container runs.
	AwaitRunning(ctx context.Context, pod *corev1.Pod, container string) error
	// Finish ends a container with an exit code, once it runs, and returns when kubelet has reported it.
	Finish(ctx context.Context, pod *corev1.Pod, container string, exit int32) error
}

// Driver acts on a cluster in a test, waits for what must come about, and logs both. Each of its methods ends the test
// when something else happens.
type Driver struct {
	T          Reporter
	On         *Cluster
	Containers Containers
	Namespace  string // of the pods that Pod returns
}

// Drive returns a driver of the stack.
func (s *Stack) Drive(t testing.TB, namespace string) *Driver {
	return &Driver{t, &s.Cluster, s.Sim, namespace}
}

// Must ends the test on an error.
func (d *Driver) Must(err error) {
	d.T.Helper()
	if err != nil {
		d.T.Fatalf("%v", err)
	}
}

// Pod returns a pod of the test's namespace, not yet created.
func (d *Driver) Pod(name string, containers ...Container) *corev1.Pod {
	return NewPod(d.Namespace, name, containers...)
}

// Submit creates a pod and returns it as it was admitted.
func (d *Driver) Submit(pod *corev1.Pod) *corev1.Pod {
	d.T.Helper()
	created, err := d.On.Create(d.T.Context(), pod)
	d.Must(err)
	d.T.Logf("%s: created", pod.Name)
	return created
}

// Get returns a pod as it is now.
func (d *Driver) Get(pod *corev1.Pod) *corev1.Pod {
	d.T.Helper()
	now, err := d.On.Pod(d.T.Context(), pod)
	d.Must(err)
	return now
}

// Books returns the extender's books as they are now.
func (d *Driver) Books() *Ledger {
	d.T.Helper()
	l, err := d.On.Ledger(d.T.Context())
	d.Must(err)
	return l
}

// Eventually waits until something holds.
func (d *Driver) Eventually(what string, holds func(context.Context) error) {
	d.T.Helper()
	d.Must(Eventually(d.T.Context(), what, holds))
}

// AwaitBooks waits until the extender's books are as wanted.
func (d *Driver) AwaitBooks(what string, holds func(*Ledger) error) {
	d.T.Helper()
	d.Must(d.On.AwaitBooks(d.T.Context(), what, holds))
}

// Await waits until a condition of a pod holds, and returns the pod. what ends a sentence that begins with the pod.
func (d *Driver) Await(pod *corev1.Pod, what string, holds Condition) *corev1.Pod {
	d.T.Helper()
	now, err := d.On.Await(d.T.Context(), pod, what, holds)
	d.Must(err)
	d.T.Logf("%s: %s", pod.Name, what)
	return now
}

// Refused waits until admission would refuse a pod with all of these words in its message. It does not create it.
func (d *Driver) Refused(pod *corev1.Pod, words ...string) {
	d.T.Helper()
	var refusal error
	d.Eventually("pod "+pod.Name+" is refused", func(ctx context.Context) error {
		if refusal = d.On.DryRun(ctx, pod); refusal == nil {
			return errors.New("it would be admitted")
		}
		return Lacks(refusal.Error(), words...)
	})
	d.T.Logf("%s: would be refused: %v", pod.Name, refusal)
}

// Scheduled waits until a pod has a node, and returns it.
func (d *Driver) Scheduled(pod *corev1.Pod) *corev1.Pod {
	d.T.Helper()
	bound, err := d.On.AwaitBound(d.T.Context(), pod)
	d.Must(err)
	d.T.Logf("%s: scheduled on node %s, %s", pod.Name, bound.Spec.NodeName, Placement(bound))
	return bound
}

// Pending waits until kube-scheduler has found no node for a pod, with all of these words in its reason, and returns
// it.
func (d *Driver) Pending(pod *corev1.Pod, words ...string) string {
	d.T.Helper()
	reason, err := d.On.AwaitUnschedulable(d.T.Context(), pod, words...)
	d.Must(err)
	shown, _, _ := strings.Cut(reason, " preemption: ")
	d.T.Logf("%s: pending: %s", pod.Name, shown)
	return reason
}

// StillPending has kube-scheduler try a pending pod again, and expects that it finds no node.
func (d *Driver) StillPending(pod *corev1.Pod) {
	d.T.Helper()
	d.Must(d.On.Retry(d.T.Context(), pod))
	if now := d.Get(pod); now.Spec.NodeName != "" {
		d.T.Fatalf("pod %s was bound to node %s", pod.Name, now.Spec.NodeName)
	}
	d.T.Logf("%s: tried again, still pending", pod.Name)
}

// Running waits until a container runs, and returns the pod.
func (d *Driver) Running(pod *corev1.Pod, container string) *corev1.Pod {
	d.T.Helper()
	d.Must(d.Containers.AwaitRunning(d.T.Context(), pod, container))
	d.T.Logf("%s: %s runs", pod.Name, container)
	return d.Get(pod)
}

// Finish ends a container with an exit code, once it runs.
func (d *Driver) Finish(pod *corev1.Pod, container string, exit int32) {
	d.T.Helper()
	d.Must(d.Containers.Finish(d.T.Context(), pod, container, exit))
	d.T.Logf("%s: %s exits %d", pod.Name, container, exit)
}

// Ended waits until a pod is in a phase, Succeeded or Failed.
func (d *Driver) Ended(pod *corev1.Pod, phase corev1.PodPhase) {
	d.T.Helper()
	d.Await(pod, string(phase), InPhase(phase))
}

// Holds waits until the memory reserved for a pod over all devices is as given, in MiB.
func (d *Driver) Holds(pod *corev1.Pod, memoryMiB int64) {
	d.T.Helper()
	d.Must(d.On.AwaitReserved(d.T.Context(), pod, memoryMiB))
	d.T.Logf("%s: %d MiB reserved", pod.Name, memoryMiB)
}

// Reserved waits until so many MiB are reserved on a device.
func (d *Driver) Reserved(uuid string, memoryMiB int64) {
	d.T.Helper()
	d.Must(d.On.AwaitDevice(d.T.Context(), uuid, memoryMiB))
	d.T.Logf("%s: %d MiB reserved", uuid, memoryMiB)
}

// Charged waits until the namespace is charged so much NVIDIA memory, in MiB × devices.
func (d *Driver) Charged(memoryMiB int64) {
	d.T.Helper()
	d.AwaitBooks(fmt.Sprintf("namespace %s is charged %d MiB", d.Namespace, memoryMiB), func(l *Ledger) error {
		if got := l.Used()[d.Namespace+"/NVIDIA"].MemoryMiB; got != memoryMiB {
			return fmt.Errorf("it is charged %d MiB", got)
		}
		return nil
	})
	d.T.Logf("the namespace is charged %d MiB", memoryMiB)
}

// Unmoved expects that the books do not change, not even for a moment, while something happens to a pod. It ends when
// the extender has seen what happened.
func (d *Driver) Unmoved(pod *corev1.Pod, while func()) {
	d.T.Helper()
	seen := func() *Ledger {
		d.Must(d.On.AwaitSeen(d.T.Context(), pod))
		return d.Books()
	}
	before := seen()
	while()
	if after := seen(); after.Generation != before.Generation {
		d.T.Fatalf("the books changed %d times:\nbefore %+v\nafter  %+v",
			after.Generation-before.Generation, before.Reserved(), after.Reserved())
	}
	d.T.Logf("%s: what is reserved never moved", pod.Name)
}

// Event waits for an event on a pod with this reason, and with all of these words in its note.
func (d *Driver) Event(pod *corev1.Pod, reason string, words ...string) {
	d.T.Helper()
	d.Eventually(fmt.Sprintf("pod %s has event %s", pod.Name, reason), func(ctx context.Context) error {
		events, err := d.On.Client.EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range events.Items {
			if e.Regarding.UID != pod.UID {
				continue
			}
			if e.Reason == reason && Lacks(e.Note, words...) == nil {
				d.T.Logf("event %s on %s: %s", reason, pod.Name, e.Note)
				return nil
			}
			notes = append(notes, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("its events are: %s", strings.Join(notes, "; "))
	})
}

// Delete deletes pods and waits until they are gone.
func (d *Driver) Delete(pods ...*corev1.Pod) {
	d.T.Helper()
	ctx := d.T.Context()
	d.Must(Each(len(pods), func(i int) error { return d.On.Delete(ctx, pods[i]) }))
	for _, pod := range pods {
		d.T.Logf("%s: deleted", pod.Name)
	}
}
