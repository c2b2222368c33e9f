package stack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Cluster is a cluster with phasegpu in it, of any kind, for a client that may do everything.
type Cluster struct {
	Client kubernetes.Interface
	// Page reads a page that the extender serves beside its metrics: "/debug/ledger".
	Page func(ctx context.Context, path string) ([]byte, error)
}

// EventuallyTimeout is how long Eventually waits when its context sets no earlier deadline.
const EventuallyTimeout = time.Minute

// Eventually calls holds until it returns nil, for at most EventuallyTimeout. Its error has the last reason, which
// wait.PollUntilContextTimeout would not tell.
func Eventually(ctx context.Context, what string, holds func(context.Context) error) error {
	return Within(ctx, EventuallyTimeout, what, holds)
}

// Within is Eventually with another time limit.
func Within(ctx context.Context, most time.Duration, what string, holds func(context.Context) error) error {
	const shortest, longest = 10 * time.Millisecond, 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	tick := time.NewTicker(shortest)
	defer tick.Stop()
	var last error
	for {
		// After a long wait a tenth of it more does not matter, and the machine has other work.
		tick.Reset(min(max(time.Since(began)/10, shortest), longest))
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

// AwaitBooks is Eventually for what the extender's books show.
func (c *Cluster) AwaitBooks(ctx context.Context, what string, holds func(*Ledger) error) error {
	return Eventually(ctx, what, func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		return holds(l)
	})
}

// Namespace creates a namespace and waits until pods can be created in it.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return Eventually(ctx, "default service account of namespace "+name, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Create creates a pod and returns it as it was admitted.
func (c *Cluster) Create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// DryRun returns the API server's answer to the creation of a pod, without creating it.
func (c *Cluster) DryRun(ctx context.Context, pod *corev1.Pod) error {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, dry)
	return err
}

// CreateAll creates n pods, up to 16 at a time, and returns them as they were admitted.
func (c *Cluster) CreateAll(ctx context.Context, n int, pod func(i int) *corev1.Pod) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, n)
	err := Each(n, func(i int) (err error) {
		pods[i], err = c.Create(ctx, pod(i))
		return err
	})
	return pods, err
}

// Each calls do for 0 to n-1, 16 at a time, and joins the errors.
func Each(n int, do func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, 16) {
		all.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

// Together runs all functions at once and joins their errors.
func Together(all ...func() error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() { errs[i] = f() })
	}
	running.Wait()
	return errors.Join(errs...)
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
	return c.AwaitGone(ctx, pod)
}

// AwaitGone waits until a pod is gone, or another has its name.
func (c *Cluster) AwaitGone(ctx context.Context, pod *corev1.Pod) error {
	return Eventually(ctx, fmt.Sprintf("pod %s/%s is gone", pod.Namespace, pod.Name), func(ctx context.Context) error {
		there, err := c.Pod(ctx, pod)
		if apierrors.IsNotFound(err) || err == nil && pod.UID != "" && there.UID != pod.UID {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is there, deleted at %v", there.DeletionTimestamp)
		}
		return err
	})
}

// Clear deletes a namespace's pods and quotas, and waits until they are gone from the API server and from
// the extender's books.
func (c *Cluster) Clear(ctx context.Context, namespace string) error {
	core, all := c.Client.CoreV1(), metav1.ListOptions{}
	if err := errors.Join(
		core.Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		core.ResourceQuotas(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	); err != nil {
		return err
	}
	err := Eventually(ctx, fmt.Sprintf("namespace %s is empty", namespace), func(ctx context.Context) error {
		pods, err := core.Pods(namespace).List(ctx, all)
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("it has %d pods, %s among them", len(pods.Items), pods.Items[0].Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.AwaitBooks(ctx, "the books have nothing of namespace "+namespace, func(l *Ledger) error {
		return l.empty(namespace)
	})
}

// Await waits until a condition of a pod holds, and returns the pod.
func (c *Cluster) Await(ctx context.Context, pod *corev1.Pod, what string, holds Condition) (got *corev1.Pod,
	err error) {
	err = Eventually(ctx, fmt.Sprintf("pod %s/%s %s", pod.Namespace, pod.Name, what),
		func(ctx context.Context) (err error) {
			if got, err = c.Pod(ctx, pod); err != nil {
				return err
			}
			return holds(got)
		})
	return got, err
}

// AwaitBound waits until a pod has a node, and returns it.
func (c *Cluster) AwaitBound(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return c.Await(ctx, pod, "is bound", Bound)
}

// AwaitPhase waits until a pod is in a phase, and returns it.
func (c *Cluster) AwaitPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) (*corev1.Pod, error) {
	return c.Await(ctx, pod, "is "+string(phase), InPhase(phase))
}

// AwaitUnschedulable waits until kube-scheduler has found no node for a pod, with all of these words in its reason, and
// returns the reason.
func (c *Cluster) AwaitUnschedulable(ctx context.Context, pod *corev1.Pod, words ...string) (string, error) {
	p, err := c.Await(ctx, pod, "is unschedulable for the right reason", Unschedulable(words...))
	if err != nil {
		return "", err
	}
	return UnschedulableReason(p), nil
}
