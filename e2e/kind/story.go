package kind

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Story is a test on the cluster. Its methods log what they did and saw, and when.
type Story struct {
	clock
	*stack.Driver
	Cluster *Cluster
}

// clock is a test that logs with the time since it began.
type clock struct {
	testing.TB
	began time.Time
}

// Logf says what happened.
func (c clock) Logf(format string, args ...any) {
	c.Helper()
	c.TB.Logf("%6.1f s  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// Fatalf ends the test.
func (c clock) Fatalf(format string, args ...any) {
	c.Helper()
	c.TB.Fatalf("after %.1f s: %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
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
	s := &Story{clock: clock{t, time.Now()}, Cluster: cluster}
	s.Driver = &stack.Driver{T: s.clock, On: &cluster.Cluster, Containers: cluster}
	t.Cleanup(s.end)
	s.Must(cluster.AwaitFree(t.Context()))
	name := strings.TrimPrefix(strings.TrimPrefix(t.Name(), "Test"), "Benchmark")
	name = "e2e-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(name)) + "-"
	namespace, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name, Labels: map[string]string{ours: "true"}},
	}, metav1.CreateOptions{})
	s.Must(err)
	s.Namespace = namespace.Name
	s.Must(cluster.Namespace(t.Context(), s.Namespace))
	return s
}

// end is what happens after a test, whether it failed or not.
func (s *Story) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 5*time.Minute)
	defer cancel()
	check := func(err error) {
		if err != nil {
			s.Error(err)
		}
	}
	audit := func() {
		check(s.Cluster.AwaitAudit(ctx))
		check(s.Cluster.Audit(ctx))
		s.Logf("the books are audited")
	}
	audit()
	if s.Failed() {
		s.collect(ctx)
	}
	if s.Namespace == "" {
		return // it never began
	}
	check(s.Cluster.Clear(ctx, s.Namespace))
	check(s.Cluster.Client.CoreV1().Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{}))
	s.Logf("its pods are gone")
	audit()
}

// ours is the label of the namespaces of tests.
const ours = "e2e.phasegpu.io/story"

// Sweep deletes what tests that were killed have left behind. Call it once, before any test.
func (c *Cluster) Sweep(ctx context.Context) error {
	namespaces := c.Client.CoreV1().Namespaces()
	left, err := namespaces.List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil {
		return err
	}
	for _, n := range left.Items {
		err := namespaces.Delete(ctx, n.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// AwaitFree waits until there is a leader and the cards are known, healthy and free.
func (c *Cluster) AwaitFree(ctx context.Context) error {
	return c.AwaitBooks(ctx, "the cluster's cards are free", func(l *stack.Ledger) error {
		for card, node := range map[string]string{
			CardA: Worker, CardB: Worker, CardC: Worker2, CardD: Worker3, CardE: Worker3,
		} {
			switch d := l.Device(node, card); {
			case d == nil:
				return fmt.Errorf("the extender does not list %s on node %s: is everything deployed (kind/deploy)?",
					card, node)
			case !d.Healthy || d.Cordoned:
				return fmt.Errorf("%s is not healthy: %+v", card, *d)
			case d.Reserved != stack.Amount{}:
				return fmt.Errorf("%s is reserved: %+v, for %s", card, d.Reserved, holders(l, card))
			}
		}
		return nil
	})
}

// holders describes the pods that hold something of a card.
func holders(l *stack.Ledger, card string) string {
	var all []string
	for _, n := range l.Nodes {
		for _, p := range n.Pods {
			for _, d := range p.Devices {
				if d.UUID == card {
					all = append(all, fmt.Sprintf("%s/%s (%d MiB)", p.Namespace, p.Name, d.Reserved.MemoryMiB))
				}
			}
		}
	}
	return strings.Join(all, ", ")
}

// Pod returns a pod of the test's namespace, not yet created. Containers without steps of their own (Runs) print their
// environment and run until Finish ends them.
func (s *Story) Pod(name string, containers ...stack.Container) *corev1.Pod {
	return complete(s.Driver.Pod(name, containers...))
}
