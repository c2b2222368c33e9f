package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Story is a test on the cluster. Its methods tell what they did and saw, and when.
type Story struct {
	testing.TB
	Cluster   *Cluster
	Namespace string

	began time.Time
}

// Begin waits until the cluster is ready and its cards are free, and makes a namespace for a test. When the
// test ends, the books are audited with its pods there and when they are gone; of a failed test's cluster
// kind/artifacts keeps a picture.
func Begin(t testing.TB) *Story {
	t.Helper()
	cluster, err := Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &Story{TB: t, Cluster: cluster, began: time.Now()}
	t.Cleanup(s.end)
	s.Must(cluster.AwaitFree(t.Context()))
	name := "e2e-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(strings.TrimPrefix(t.Name(), "Test"), "Benchmark"))) + "-"
	namespace, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name, Labels: map[string]string{ours: "true"}}}, metav1.CreateOptions{})
	s.Must(err)
	s.Namespace = namespace.Name
	s.Must(cluster.Namespace(t.Context(), s.Namespace))
	return s
}

// end is what happens after a test, whatever became of it.
func (s *Story) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 5*time.Minute)
	defer cancel()
	check := func(err error) {
		if err != nil {
			s.Error(err)
		}
	}
	check(s.Cluster.AwaitAudit(ctx))
	check(s.Cluster.Audit(ctx))
	s.Tell("the books are audited")
	if s.Failed() {
		s.collect(ctx)
	}
	if s.Namespace == "" {
		return // it never began
	}
	check(s.Cluster.Clear(ctx, s.Namespace))
	check(s.Cluster.Client.CoreV1().Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{}))
	s.Tell("its pods are gone")
	check(s.Cluster.AwaitAudit(ctx))
	check(s.Cluster.Audit(ctx))
	s.Tell("the books are audited")
}

// ours is the label of the namespaces of tests.
const ours = "e2e.phasegpu.io/story"

// Sweep deletes what tests that were killed have left behind. Call it once, before any test.
func (c *Cluster) Sweep(ctx context.Context) error {
	left, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil {
		return err
	}
	for _, n := range left.Items {
		if err := c.Client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// AwaitFree waits until somebody leads and the cards are known, healthy and free.
func (c *Cluster) AwaitFree(ctx context.Context) error {
	return stack.Eventually(ctx, "the cluster's cards are free", func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		for card, node := range map[string]string{CardA: Worker, CardB: Worker, CardC: Worker2, CardD: Worker3, CardE: Worker3} {
			switch d := l.Device(node, card); {
			case d == nil:
				return fmt.Errorf("the extender does not list %s on node %s: is everything deployed (kind/deploy)?", card, node)
			case !d.Healthy || d.Cordoned:
				return fmt.Errorf("%s is not healthy: %+v", card, *d)
			case d.Reserved != stack.Amount{}:
				return fmt.Errorf("%s is reserved: %+v, for %s", card, d.Reserved, holders(l, card))
			}
		}
		return nil
	})
}

// Must ends the test on an error.
func (s *Story) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("after %.1f s: %v", time.Since(s.began).Seconds(), err)
	}
}

// Tell says what happened.
func (s *Story) Tell(format string, args ...any) {
	s.Helper()
	s.Logf("%6.1f s  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// Pod returns a pod of the test's namespace, not yet created. Containers that were not told what to do (Runs)
// print their environment and run until Finish ends them.
func (s *Story) Pod(name string, containers ...stack.Container) *corev1.Pod {
	return complete(stack.NewPod(s.Namespace, name, containers...))
}

// Submit creates a pod and returns it as admitted.
func (s *Story) Submit(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	created, err := s.Cluster.Create(s.Context(), pod)
	s.Must(err)
	s.Tell("%s: created", pod.Name)
	return created
}

// Refused waits until admission would refuse a pod with all of these words in its message. It does not create it.
func (s *Story) Refused(pod *corev1.Pod, words ...string) {
	s.Helper()
	var refusal error
	s.eventually("pod "+pod.Name+" is refused", func(ctx context.Context) error {
		if refusal = s.Cluster.DryRun(ctx, pod); refusal == nil {
			return errors.New("it would be admitted")
		}
		return stack.Lacks(refusal.Error(), words...)
	})
	s.Tell("%s: would be refused: %v", pod.Name, refusal)
}

// Scheduled waits until a pod has a node, and returns it.
func (s *Story) Scheduled(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	bound, err := s.Cluster.AwaitBound(s.Context(), pod)
	s.Must(err)
	s.Tell("%s: scheduled on node %s", pod.Name, bound.Spec.NodeName)
	return bound
}

// Pending waits until kube-scheduler has found no node for a pod, with all of these words in its reason.
func (s *Story) Pending(pod *corev1.Pod, words ...string) {
	s.Helper()
	reason, err := s.Cluster.AwaitRefused(s.Context(), pod, words...)
	s.Must(err)
	s.Tell("%s: pending: %s", pod.Name, reason)
}

// StillPending has kube-scheduler look at a pending pod again, and expects that it finds no node.
func (s *Story) StillPending(pod *corev1.Pod) {
	s.Helper()
	s.Must(s.Cluster.StillPending(s.Context(), pod))
	s.Tell("%s: tried again, still pending", pod.Name)
}

// Await waits until a pod is what holds wants, and returns it. what ends a sentence that begins with the pod.
func (s *Story) Await(pod *corev1.Pod, what string, holds func(*corev1.Pod) error) *corev1.Pod {
	s.Helper()
	now, err := s.Cluster.Await(s.Context(), pod, what, holds)
	s.Must(err)
	s.Tell("%s: %s", pod.Name, what)
	return now
}

// Running waits until a container runs, and returns the pod as it is then.
func (s *Story) Running(pod *corev1.Pod, container string) *corev1.Pod {
	s.Helper()
	now, err := s.Cluster.AwaitRunning(s.Context(), pod, container)
	s.Must(err)
	s.Tell("%s: %s runs", pod.Name, container)
	return now
}

// Finish ends a container with an exit code, once it runs, and returns the pod when kubelet has reported it.
func (s *Story) Finish(pod *corev1.Pod, container string, code int) *corev1.Pod {
	s.Helper()
	running, err := s.Cluster.AwaitRunning(s.Context(), pod, container)
	s.Must(err)
	err = s.Cluster.Exec(s.Context(), pod, container, fmt.Sprintf("touch=%s.%d", end, code))
	if exit := exec.ExitError(nil); errors.As(err, &exit) && exit.ExitStatus() == 128+int(syscall.SIGKILL) {
		err = nil // the container saw the file, and its end took along who had made it
	}
	s.Must(err)
	id := stack.ContainerStatus(running, container).ContainerID
	ended, err := s.Cluster.Await(s.Context(), pod, "has "+container+" ended", func(p *corev1.Pod) error {
		if status := stack.ContainerStatus(p, container); status != nil && status.ContainerID == id && status.State.Running != nil {
			return errors.New("it runs")
		}
		return nil
	})
	s.Must(err)
	s.Tell("%s: %s exits %d: %s", pod.Name, container, code, stack.Told(ended))
	return ended
}

// Ended waits until a pod is in a phase, Succeeded or Failed.
func (s *Story) Ended(pod *corev1.Pod, phase corev1.PodPhase) {
	s.Helper()
	_, err := s.Cluster.AwaitPhase(s.Context(), pod, phase)
	s.Must(err)
	s.Tell("%s: %s", pod.Name, phase)
}

// Delete deletes a pod and waits until it is gone.
func (s *Story) Delete(pods ...*corev1.Pod) {
	s.Helper()
	for _, pod := range pods {
		s.Must(s.Cluster.Client.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	}
	for _, pod := range pods {
		s.Must(s.Cluster.Delete(s.Context(), pod))
		s.Tell("%s: gone", pod.Name)
	}
}

// eventually is stack.Eventually, and ends the test when that fails.
func (s *Story) eventually(what string, holds func(context.Context) error) {
	s.Helper()
	s.Must(stack.Eventually(s.Context(), what, holds))
}
