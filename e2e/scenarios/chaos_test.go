package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestChaos: 200 pods are scheduled on 20 nodes, their init containers completing, while the
// extender is killed ten times, API server and etcd restart, and kube-scheduler is stopped, once for longer
// than its Lease lasts. At no moment is a device over-committed, after each blow the books equal what the
// API server's pods say, and every pod ends well.
func TestChaos(t *testing.T) {
	const numNodes, numPods, kills = 20, 200, 10
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	programs, err := stack.Build(t.Context(), t.TempDir(), "-race")
	must(t, err)
	s := stack.StartT(t, stack.Options{Programs: programs})
	var nodes []nodesim.Node
	for i := range numNodes {
		name := fmt.Sprintf("n%02d", i)
		nodes = append(nodes, nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 2, 24576)})
		must(t, s.Sim.AddNode(t.Context(), nodes[i]))
	}
	w, err := s.Witness(t.Context(), nodes...)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	supervised := supervise(ctx, t, s.Scheduler)
	defer func() { cancel(); <-supervised }()

	pods := make([]*corev1.Pod, numPods)
	for i := range pods {
		pods[i] = chaosPod(random, i)
	}
	created := make(chan error, 1)
	go func() { created <- createAll(ctx, s, pods) }()
	for i, blow := range blows(s, kills) {
		must(t, w.AwaitPhase(ctx, pods[i*numPods/2/kills], corev1.PodSucceeded)) // at a moment that chance decides
		after := time.Duration(random.IntN(int(500 * time.Millisecond)))
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
		began := time.Now()
		if err := blow.strike(ctx); err != nil {
			t.Fatalf("%s: %v", blow.what, err)
		}
		t.Logf("%s: %v", blow.what, time.Since(began).Round(time.Millisecond))
		began = time.Now()
		if err := auditQuiet(ctx, s); err != nil {
			t.Fatalf("after: %s: %v", blow.what, err)
		}
		t.Logf("books are right after %v", time.Since(began).Round(time.Millisecond))
	}
	must(t, <-created)
	for _, pod := range pods {
		must(t, w.AwaitPhase(ctx, pod, corev1.PodSucceeded))
	}
	must(t, s.AwaitAudit(ctx))
	for _, over := range w.OverCommitted() {
		t.Errorf("over-committed: %s", over)
	}
	l, err := s.Ledger(ctx)
	must(t, err)
	if left := l.Reserved(); len(left) > 0 {
		t.Errorf("all pods have ended, and reserved is %v", left)
	}
}

// auditQuiet compares the books with a recomputation while nothing happens that would change either.
func auditQuiet(ctx context.Context, s *stack.Stack) error {
	s.Sim.Freeze()
	defer s.Sim.Thaw()
	if s.Scheduler.Signal(syscall.SIGSTOP) == nil { // else it has ended, and binds nothing
		defer func() { _ = s.Scheduler.Signal(syscall.SIGCONT) }()
	}
	return s.AwaitAudit(ctx)
}

// chaosPod is a pod that ends by itself. Together they would not fit at once.
func chaosPod(random *rand.Rand, i int) *corev1.Pod {
	ms := func(least, most int) string { return fmt.Sprintf("%dms", least+random.IntN(most-least)) }
	pod := stack.NewPod("default", fmt.Sprintf("p%03d", i), stack.RandomContainers(random)...)
	plan := "i=0@%s; j=0@%s; s=hold; a=0@%s; b=0@%s"
	return stack.Plan(pod, fmt.Sprintf(plan, ms(50, 800), ms(50, 800), ms(200, 3000), ms(200, 3000)))
}

// createAll creates pods one by one, over the API server's absences.
func createAll(ctx context.Context, s *stack.Stack, pods []*corev1.Pod) error {
	for _, pod := range pods {
		err := stack.Eventually(ctx, "pod "+pod.Name+" is created", func(ctx context.Context) error {
			_, err := s.Create(ctx, pod)
			if apierrors.IsAlreadyExists(err) {
				return nil // by a call whose answer was lost
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type blow struct {
	what   string
	strike func(context.Context) error
}

// blows kills the extender so many times, and between does everything else that may happen.
func blows(s *stack.Stack, kills int) []blow {
	stop := func(p *process.Process, d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := p.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return p.Signal(syscall.SIGCONT)
		}
	}
	kill := func(p *process.Process) func(context.Context) error {
		return func(ctx context.Context) error { return errors.Join(p.Kill(), p.Start(ctx)) }
	}
	others := map[int]blow{
		2: {"kube-scheduler stopped for 2 s", stop(s.Scheduler, 2*time.Second)},
		4: {"kube-scheduler stopped for longer than its Lease", stop(s.Scheduler, 16*time.Second)},
		5: {"API server restarted", s.APIServer.Restart},
		6: {"extender stopped for 2 s", stop(s.Extender, 2*time.Second)},
		7: {"etcd killed", kill(s.Etcd)},
		8: {"API server killed", kill(s.APIServer)},
	}
	var all []blow
	for i := range kills {
		if other, ok := others[i]; ok {
			all = append(all, other)
		}
		all = append(all, blow{fmt.Sprintf("extender killed (%d)", i+1), kill(s.Extender)})
	}
	return all
}

// supervise starts a program again that ends by itself, as kubelet does, until ctx ends: kube-scheduler does
// when it cannot renew its Lease.
func supervise(ctx context.Context, t *testing.T, p *process.Process) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if p.Running() {
				continue
			}
			t.Logf("%s has ended and is started again", p.Name)
			if err := p.Start(ctx); err != nil && ctx.Err() == nil {
				t.Logf("%s: %v", p.Name, err)
			}
		}
	}()
	return ended
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
