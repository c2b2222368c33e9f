package nodesim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The methods below wait until the pod is on a simulated node and admitted, do what they say, and return
// when that is reported to the API server. A pod is known by its UID, or, without one, by its name.

// Finish ends a container with an exit code. It waits until the container runs.
func (s *Simulator) Finish(ctx context.Context, pod *corev1.Pod, name string, exit int32) error {
	return s.whileRunning(ctx, pod, name, func(l *life, c *container, now time.Time) { l.end(c, exit, now) })
}

// AwaitRunning waits until a container runs, and that is reported.
func (s *Simulator) AwaitRunning(ctx context.Context, pod *corev1.Pod, name string) error {
	return s.whileRunning(ctx, pod, name, func(*life, *container, time.Time) {})
}

// RecreateSandbox stops the pod's sandbox, so that its containers end and kubelet makes a new one, in which
// init containers run again.
func (s *Simulator) RecreateSandbox(ctx context.Context, pod *corev1.Pod) error {
	return s.rerun(ctx, pod, (*life).recreateSandbox)
}

// KillPause kills the pod's pause process. It differs from RecreateSandbox in what is reported: that the
// containers have ended comes last.
func (s *Simulator) KillPause(ctx context.Context, pod *corev1.Pod) error {
	return s.rerun(ctx, pod, (*life).killPause)
}

// RestartAllContainers restarts all containers in place, init containers first, as the action of a
// container's exit rule does.
func (s *Simulator) RestartAllContainers(ctx context.Context, pod *corev1.Pod) error {
	return s.rerun(ctx, pod, (*life).restartAll)
}

// SetStatus reports a status as it is given; conditions of others stay. From then on the pod does only what
// SetStatus says, until it is deleted.
func (s *Simulator) SetStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	return s.order(ctx, pod, "set its status", func(p *podWorker, _ time.Time) (bool, error) {
		p.manual = status.DeepCopy()
		return true, nil
	})
}

// AwaitAdmitted waits until the pod's kubelet has looked at it and reported it.
func (s *Simulator) AwaitAdmitted(ctx context.Context, pod *corev1.Pod) error {
	return s.order(ctx, pod, "be admitted", func(*podWorker, time.Time) (bool, error) { return true, nil })
}

// whileRunning acts on a container once it runs.
func (s *Simulator) whileRunning(
	ctx context.Context, pod *corev1.Pod, name string, act func(*life, *container, time.Time),
) error {
	return s.order(ctx, pod, "run container "+name, func(p *podWorker, now time.Time) (bool, error) {
		c := p.life.container(name)
		switch {
		case c == nil:
			return false, fmt.Errorf("pod %s has no container %s", p.name, name)
		case p.manual != nil:
			return false, fmt.Errorf("pod %s has a status of SetStatus: container %s does not run by itself", p.name,
				name)
		case p.life.over():
			return false, fmt.Errorf("pod %s has ended (%s): container %s will not run", p.name, p.life.phase(), name)
		case c.state.Running == nil || len(p.life.script) > 0:
			return false, nil
		}
		act(p.life, c, now)
		return true, nil
	})
}

// rerun begins a rerun and waits until its first report.
func (s *Simulator) rerun(ctx context.Context, pod *corev1.Pod, begin func(*life)) error {
	return s.order(ctx, pod, "run again", func(p *podWorker, now time.Time) (bool, error) {
		switch {
		case p.manual != nil:
			return false, fmt.Errorf("pod %s has a status of SetStatus and does nothing by itself", p.name)
		case p.life.over():
			return false, fmt.Errorf("pod %s has ended (%s)", p.name, p.life.phase())
		case len(p.life.script) > 0:
			return false, nil
		}
		begin(p.life)
		p.life.step(now)
		return true, nil
	})
}

// order hands an order to the pod's worker and waits for the answer.
func (s *Simulator) order(
	ctx context.Context, pod *corev1.Pod, what string, do func(*podWorker, time.Time) (bool, error),
) error {
	p, err := s.worker(ctx, pod)
	if err != nil {
		return err
	}
	o := &order{ctx: ctx, do: do, answer: make(chan error, 1)}
	orders := p.orders
	for {
		select {
		case orders <- o:
			orders = nil
		case err := <-o.answer:
			return err
		case <-p.gone:
			return p.errGone()
		case <-s.ctx.Done():
			return fmt.Errorf("pod %s: the simulation has ended", p.name)
		case <-ctx.Done():
			return fmt.Errorf("waited for pod %s on node %s to %s: %w", p.name, p.node, what, ctx.Err())
		}
	}
}
