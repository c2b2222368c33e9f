package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// life is what happens in the cluster: lanes in which one pod after the other is created, perhaps runs its init
// containers again, and is deleted in any state.
type life struct {
	*stack.Stack
	namespaces []string
	quiet      sync.RWMutex // locked while the lanes must not act
	lanes      sync.WaitGroup

	created, denied, reran, ended atomic.Int64
	errs                          chan error // the first of each lane
}

// start has so many lanes act until ctx ends.
func (l *life) start(ctx context.Context, lanes int, seed uint64) {
	l.errs = make(chan error, lanes)
	for lane := range lanes {
		random := rand.New(rand.NewPCG(seed, uint64(lane)))
		l.lanes.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := l.live(ctx, random, fmt.Sprintf("lane-%d-%d", lane, i)); err != nil && ctx.Err() == nil {
					l.errs <- fmt.Errorf("lane %d: %w", lane, err)
					return
				}
			}
		})
	}
}

// live is one pod's life.
func (l *life) live(ctx context.Context, random *rand.Rand, name string) error {
	pod, err := l.create(ctx, randomPod(random, l.namespaces[random.IntN(len(l.namespaces))], name))
	if pod == nil || err != nil {
		return err
	}
	for range random.IntN(4) {
		if err := pause(ctx, random, 1500*time.Millisecond); err != nil {
			return err
		}
		if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways { // of others the API server rejects such a status
			l.rerun(ctx, random, pod)
		}
	}
	if err := pause(ctx, random, 3*time.Second); err != nil {
		return err
	}
	return l.end(ctx, random, pod)
}

// create creates a pod; it returns none if that would exceed the namespace's quota.
func (l *life) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	l.quiet.RLock()
	defer l.quiet.RUnlock()
	created, err := l.Create(ctx, pod)
	if apierrors.IsForbidden(err) {
		l.denied.Add(1)
		return nil, nil
	}
	if err == nil {
		l.created.Add(1)
	}
	return created, err
}

// rerun has a pod's init containers run again, in one of the ways in which they do, if it runs.
func (l *life) rerun(ctx context.Context, random *rand.Rand, pod *corev1.Pod) {
	l.quiet.RLock()
	defer l.quiet.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	again := []func(context.Context, *corev1.Pod) error{l.Sim.RecreateSandbox, l.Sim.KillPause,
		l.Sim.RestartAllContainers}
	if again[random.IntN(len(again))](ctx, pod) == nil { // it may have no node, or have ended
		l.reran.Add(1)
	}
}

// end deletes a pod, half of them with no grace, and waits until it is gone.
func (l *life) end(ctx context.Context, random *rand.Rand, pod *corev1.Pod) error {
	l.quiet.RLock()
	defer l.quiet.RUnlock()
	grace := int64(30 * random.IntN(2))
	err := l.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := l.Delete(ctx, pod); err != nil {
		return err
	}
	l.ended.Add(1)
	return nil
}

// pause lets a random time pass: it is what happens in the cluster, and nothing waits for it.
func pause(ctx context.Context, random *rand.Rand, most time.Duration) error {
	select {
	case <-time.After(time.Duration(random.Int64N(int64(most)))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// randomPod is a pod of one of several shapes; all that are there at once fit seldom. Its containers end after
// a while, fail now and then, or stay.
func randomPod(random *rand.Rand, namespace, name string) *corev1.Pod {
	containers := stack.RandomContainers(random)
	if random.IntN(7) == 0 { // without devices
		containers = []stack.Container{stack.App("a")}
	}
	pod := stack.NewPod(namespace, name, containers...)
	ms := func(most int) string { return fmt.Sprintf("%dms", 50+random.IntN(most)) }
	app, policy := "hold", corev1.RestartPolicyAlways
	if random.IntN(3) == 0 {
		app, policy = "0@"+ms(2000), corev1.RestartPolicyOnFailure
	}
	first := "0"
	if random.IntN(5) == 0 {
		first = "1@100ms,0" // and is tried again
	}
	stack.Plan(pod, fmt.Sprintf("i=%s@%s; j=0@%s; s=hold; a=%s; b=%s", first, ms(600), ms(600), app, app))
	pod.Spec.RestartPolicy = policy
	pod.Spec.SchedulerName = stack.SchedulerName // the pods without devices, too
	if random.IntN(4) == 0 {
		stack.Annotate(pod, "phasegpu.io/release", []string{"hold", "all-inits"}[random.IntN(2)])
	}
	return pod
}
