//go:build kind

package kind_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestHundred: a hundred pods come onto two nodes as fast as they can be created, and ten of them are deleted by force
// at random moments. Every container gets its own pod's devices, no other pod is rejected or stuck, and at no moment
// is a device over-committed.
func TestHundred(t *testing.T) {
	const numPods, numVictims = 100, 10
	s := kind.Begin(t)
	w := witness(s)
	c := newCrowd(s, w, "p", numPods)
	t.Cleanup(c.tidy)
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	victims := random.Perm(numPods)[:numVictims]

	began := time.Now()
	struck := make(chan error, 1)
	var strikes []func() error
	for i, victim := range victims {
		after := time.Duration(random.IntN(int(300 * time.Millisecond)))
		strikes = append(strikes, func() error { return c.strike(t.Context(), c.pods[victim], i%4, after) })
	}
	go func() { struck <- stack.Together(strikes...) }()
	c.create()
	c.awaitEnded(numPods, 8*time.Minute) // a fifth of that on an idle machine
	s.Must(<-struck)
	s.Logf("all have ended %.0f s after the first was created", time.Since(began).Seconds())

	for i, pod := range c.pods {
		last, _ := w.Last(pod)
		if !slices.Contains(victims, i) && last.Status.Phase != corev1.PodSucceeded {
			t.Errorf("pod %s is %s", pod.Name, stack.Describe(last))
		}
	}
	c.check()
	notOver(s, w)
}

// witness watches all pods of the cluster until the test ends.
func witness(s *kind.Story) *stack.Witness {
	s.Helper()
	nodes, err := s.Cluster.Nodes(s.Context())
	s.Must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.Cleanup(cancel)
	w, err := s.Cluster.Witness(ctx, nodes...)
	s.Must(err)
	return w
}

// notOver expects that at no moment was more reserved on a device than it has.
func notOver(s *kind.Story, w *stack.Witness) {
	for _, over := range w.OverCommitted() {
		s.Errorf("over-committed: %s", over)
	}
}
