package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

const namespace = "bench"

// patience is how long a whole round may take.
const patience = 10 * time.Minute

// burst creates pods, starts the scheduler, and sees how they are bound.
func (b *bench) burst(ctx context.Context, mode Mode) (_ *Burst, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	churn, err := b.begin(ctx, mode, time.Duration(b.Pods)*time.Second/50)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.clear(ctx)) }()
	if err := b.Scheduler.Stop(ctx); err != nil {
		return nil, err
	}
	events := newTrace(b.log)
	if err := events.skip(); err != nil {
		return nil, err
	}
	pods, err := b.CreateAll(ctx, b.Pods, b.pod(mode))
	if err != nil {
		return nil, err
	}
	churn.start(ctx)
	defer churn.stop()
	if err := b.StartScheduler(ctx, b.scheduler(mode)); err != nil {
		return nil, err
	}
	profiled := b.profile(ctx, "burst", mode)
	if err := events.await(ctx, 1); err != nil {
		return nil, err
	}
	meter, first := b.meter(), churn.meter()
	if err := events.await(ctx, b.Pods); err != nil {
		return nil, err
	}
	result := &Burst{Finished: first.perSecond()}
	if err := b.awaitRunning(ctx, pods); err != nil {
		return nil, err
	}
	result.Bound, result.Ran = events.sinceFirst(time.Now())
	if result.Load, err = meter.read(); err != nil {
		return nil, err
	}
	result.Requests, err = events.perPod(b.Pods)
	return result, errors.Join(err, profiled())
}

// steady creates pods at a fixed rate while the scheduler runs.
func (b *bench) steady(ctx context.Context, mode Mode) (_ *Steady, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	churn, err := b.begin(ctx, mode, b.Options.Steady+10*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.clear(ctx)) }()
	if err := b.StartScheduler(ctx, b.scheduler(mode)); err != nil {
		return nil, err
	}
	events := newTrace(b.log)
	if err := events.skip(); err != nil {
		return nil, err
	}
	// The first finds a scheduler that may not lead yet.
	if _, err := b.Create(ctx, b.pod(mode)(0)); err != nil {
		return nil, err
	}
	if err := events.await(ctx, 1); err != nil {
		return nil, err
	}
	events = newTrace(b.log) // that one waited for the scheduler
	churn.start(ctx)
	defer churn.stop()
	profiled := b.profile(ctx, "steady", mode)
	meter, first := b.meter(), churn.meter()
	n := int(b.Options.Steady.Seconds() * float64(b.Rate))
	if err := b.createAtRate(ctx, n, b.pod(mode)); err != nil {
		return nil, err
	}
	load, err := meter.read()
	if err != nil {
		return nil, err
	}
	finished := first.perSecond()
	if err := events.await(ctx, n); err != nil {
		return nil, err
	}
	waited, err := events.waited()
	return &Steady{Waited: waited, Load: load, Finished: finished}, errors.Join(err, profiled())
}

// begin makes a round ready: the extender runs or does not, and pods whose init containers can finish for so long
// are bound.
func (b *bench) begin(ctx context.Context, mode Mode, long time.Duration) (*churn, error) {
	b.round++
	var err error
	switch {
	case !mode.Extender:
		err = b.Extender.Stop(ctx)
	case !b.Extender.Running():
		err = b.Extender.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !mode.Inits {
		return &churn{}, nil
	}
	if err := b.StartScheduler(ctx, b.scheduler(mode)); err != nil {
		return nil, err
	}
	return b.newChurn(ctx, mode, max(long, 10*time.Second))
}

func (b *bench) scheduler(mode Mode) []byte {
	if mode.Extender {
		return b.with
	}
	return b.without
}

// pod returns how the pods of a round look: with a GPU, with what is counted like one, or without, the same otherwise.
func (b *bench) pod(mode Mode) func(i int) *corev1.Pod {
	return func(i int) *corev1.Pod {
		app := stack.App("app")
		switch {
		case mode.Extender:
			app = stack.App("app", stack.GPU(1, podMiB))
		case mode.Counted:
			app = stack.App("app", stack.Limit{countedGPU: "1", countedMemory: strconv.Itoa(podMiB)})
		}
		pod := stack.NewPod(namespace, fmt.Sprintf("round-%03d-%05d", b.round, i), app)
		pod.Spec.SchedulerName = stack.SchedulerName
		return pod
	}
}

// createAtRate creates pods 1 to n, each at its time, whether or not the one before is there yet.
func (b *bench) createAtRate(ctx context.Context, n int, pod func(int) *corev1.Pod) error {
	errs := make(chan error, n)
	tick := time.NewTicker(time.Second / time.Duration(b.Rate))
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		go func() {
			_, err := b.Create(ctx, pod(i+1))
			errs <- err
		}()
	}
	var all error
	for range n {
		all = errors.Join(all, <-errs)
	}
	return all
}

// awaitRunning waits until kubelets have reported that the pods run.
func (b *bench) awaitRunning(ctx context.Context, pods []*corev1.Pod) error {
	return stack.Each(len(pods), func(i int) error { return b.Sim.AwaitRunning(ctx, pods[i], "app") })
}

// clear deletes the pods of a round. The scheduler is stopped, because it would only get an event for each.
func (b *bench) clear(ctx context.Context) error {
	if err := b.Scheduler.Stop(ctx); err != nil {
		return err
	}
	for _, ns := range []string{namespace, churnNamespace} {
		pods := b.Client.CoreV1().Pods(ns)
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		err := stack.Within(ctx, patience, "namespace "+ns+" is empty", func(ctx context.Context) error {
			left, err := pods.List(ctx, metav1.ListOptions{Limit: 1, ResourceVersion: "0"})
			if err == nil && len(left.Items) > 0 {
				err = fmt.Errorf("pod %s is there", left.Items[0].Name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sorted is a sorted copy.
func sorted(all []time.Duration) []time.Duration { return slices.Sorted(slices.Values(all)) }
