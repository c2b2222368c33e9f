package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Cluster is a cluster with phasegpu in it, of whatever kind, for a client that may do all.
type Cluster struct {
	Client kubernetes.Interface
	// Page reads a page that the extender serves beside its metrics: "/debug/ledger".
	Page func(ctx context.Context, path string) ([]byte, error)
}

// EventuallyTimeout is how long Eventually waits when its context sets no earlier deadline.
const EventuallyTimeout = time.Minute

// How often Eventually looks.
const shortestLook, longestLook = 10 * time.Millisecond, 200 * time.Millisecond

// Eventually asks again and again until holds returns nil. In time it says what did not come about and
// the last reason.
func Eventually(ctx context.Context, what string, holds func(context.Context) error) error {
	return Within(ctx, EventuallyTimeout, what, holds)
}

// Within is Eventually for what may take longer, or less.
func Within(ctx context.Context, most time.Duration, what string, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	tick := time.NewTicker(shortestLook)
	defer tick.Stop()
	var last error
	for {
		// Who has waited long may be late by a tenth, and leaves a small machine to what is waited for.
		tick.Reset(min(max(time.Since(began)/10, shortestLook), longestLook))
		err := holds(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // an error of ctx itself says less than the one before
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain: %s: %w", what, last)
		case <-tick.C:
		}
	}
}

// Namespace creates a namespace and waits until pods can be created in it.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return Eventually(ctx, fmt.Sprintf("namespace %s has its default service account", name), func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Create creates a pod and returns it as it was admitted.
func (c *Cluster) Create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// CreateAll creates n pods, up to 16 at a time, and returns them as they were admitted.
func (c *Cluster) CreateAll(ctx context.Context, n int, pod func(i int) *corev1.Pod) ([]*corev1.Pod, error) {
	pods, errs := make([]*corev1.Pod, n), make([]error, n)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, 16) {
		all.Go(func() {
			for i := range next {
				pods[i], errs[i] = c.Create(ctx, pod(i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return pods, errors.Join(errs...)
}

// Pod reads a pod.
func (c *Cluster) Pod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}

// Delete deletes a pod and waits until it is gone.
func (c *Cluster) Delete(ctx context.Context, pod *corev1.Pod) error {
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return Eventually(ctx, fmt.Sprintf("pod %s/%s is gone", pod.Namespace, pod.Name), func(ctx context.Context) error {
		there, err := c.Pod(ctx, pod)
		if apierrors.IsNotFound(err) || err == nil && pod.UID != "" && there.UID != pod.UID {
			return nil
		}
		if err == nil {
			err = errors.New("it is there")
		}
		return err
	})
}

// AwaitBound waits until a pod has a node, and returns it.
func (c *Cluster) AwaitBound(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.Await(ctx, pod, "is bound", func(p *corev1.Pod) error {
		if p.Spec.NodeName == "" {
			return fmt.Errorf("it has no node: %s", Told(p))
		}
		return nil
	})
}

// AwaitPhase waits until a pod is in a phase, and returns it.
func (c *Cluster) AwaitPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) (*corev1.Pod, error) {
	return c.Await(ctx, pod, "is "+string(phase), func(p *corev1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("it is %s", Told(p))
		}
		return nil
	})
}

// AwaitUnschedulable waits until kube-scheduler has found no node for a pod, and returns its reason.
func (c *Cluster) AwaitUnschedulable(ctx context.Context, pod *corev1.Pod) (message string, err error) {
	p, err := c.Await(ctx, pod, "is found unschedulable", func(p *corev1.Pod) error {
		switch {
		case p.Spec.NodeName != "":
			return fmt.Errorf("it is on node %s", p.Spec.NodeName)
		case unschedulable(p) == "":
			return errors.New("kube-scheduler has not yet said anything of it")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return unschedulable(p), nil
}

// AwaitRefused waits until kube-scheduler has found no node for a pod, with all of these words in its reason, and
// returns the reason but for what it says of preemption.
func (c *Cluster) AwaitRefused(ctx context.Context, pod *corev1.Pod, words ...string) (reason string, err error) {
	err = Eventually(ctx, "pod "+pod.Name+" is pending for the right reason", func(ctx context.Context) (err error) {
		if reason, err = c.AwaitUnschedulable(ctx, pod); err != nil {
			return err
		}
		return Lacks(reason, words...)
	})
	reason, _, _ = strings.Cut(reason, " preemption: ")
	return reason, err
}

// Await waits until a pod is what holds wants, and returns it.
func (c *Cluster) Await(ctx context.Context, pod *corev1.Pod, what string, holds func(*corev1.Pod) error) (*corev1.Pod, error) {
	var got *corev1.Pod
	err := Eventually(ctx, fmt.Sprintf("pod %s/%s %s", pod.Namespace, pod.Name, what), func(ctx context.Context) (err error) {
		if got, err = c.Pod(ctx, pod); err != nil {
			return err
		}
		return holds(got)
	})
	return got, err
}

func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// forbidsRecord reports whether an error is the policy's that keeps others from writing records.
func forbidsRecord(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "phasegpu-records")
}
