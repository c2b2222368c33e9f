package nodesim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podWorker lives one pod's life and reports it. One goroutine does, in run.
type podWorker struct {
	sim      *Simulator
	name     types.NamespacedName
	uid      types.UID
	node     string
	admitted bool          // set before run
	gone     chan struct{} // closed when the API server has the pod no more
	orders   chan *order

	mu      sync.Mutex
	pod     *corev1.Pod   // as seen last
	changed chan struct{} // capacity 1

	// of run alone
	life    *life
	manual  *corev1.PodStatus // what SetStatus said last; the pod's life is over then
	pending []*order
	written string
}

// order is something that a test wants of a pod.
type order struct {
	ctx context.Context
	// do tries; done is false when it is not yet possible.
	do     func(p *podWorker, now time.Time) (done bool, err error)
	answer chan error // capacity 1
}

func newPodWorker(s *Simulator, pod *corev1.Pod) *podWorker {
	return &podWorker{
		sim: s, name: nameOf(pod), uid: pod.UID, node: pod.Spec.NodeName, pod: pod,
		gone: make(chan struct{}), orders: make(chan *order), changed: make(chan struct{}, 1),
	}
}

func (p *podWorker) update(pod *corev1.Pod) {
	p.mu.Lock()
	p.pod = pod
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *podWorker) latest() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod
}

func (p *podWorker) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// run lives the pod's life until the pod is gone or the simulation ends.
func (p *podWorker) run(ctx context.Context, rejected *rejection) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.sim.spawn(func() {
		select {
		case <-p.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	defer p.refuse()

	pod := p.latest()
	p.life = newLife(pod, p.plan(pod), time.Now())
	p.life.rejected = rejected
	if p.admitted {
		p.write(ctx)
	} else {
		p.life.final = true // deleted before its admission: nothing ever ran
	}
	for ctx.Err() == nil {
		p.turn(ctx)
		var timer <-chan time.Time
		if due := p.life.due(); !due.IsZero() && !p.over() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-timer:
		case o := <-p.orders:
			p.pending = append(p.pending, o)
		}
	}
}

// turn does all that is due, each change with its report.
func (p *podWorker) turn(ctx context.Context) {
	p.life.terminating = p.latest().DeletionTimestamp != nil
	for ctx.Err() == nil {
		changed := p.manual == nil && p.life.step(time.Now())
		if changed {
			p.write(ctx)
		}
		if !p.obey(ctx) && !changed {
			break
		}
	}
	if p.over() {
		p.kubelet().release(p.uid)
		if p.life.terminating {
			p.delete(ctx)
		}
	}
}

// obey carries out orders that have become possible, and reports whether there were any.
func (p *podWorker) obey(ctx context.Context) bool {
	did := false
	rest := p.pending[:0]
	for _, o := range p.pending {
		if o.ctx.Err() != nil {
			continue // its caller has given up
		}
		done, err := o.do(p, time.Now())
		if !done && err == nil {
			rest = append(rest, o)
			continue
		}
		did = true
		if err == nil {
			err = p.write(ctx)
		}
		o.answer <- err
	}
	p.pending = rest
	return did
}

// refuse answers the orders that are left when the pod is gone.
func (p *podWorker) refuse() {
	for _, o := range p.pending {
		o.answer <- p.errGone()
	}
}

func (p *podWorker) errGone() error { return fmt.Errorf("pod %s is gone", p.name) }

// over reports whether nothing runs any more.
func (p *podWorker) over() bool {
	if p.manual != nil {
		return ended(p.manual.Phase) || p.life.terminating
	}
	return p.life.over()
}

// write reports the present status, if it is news, until the API server has taken or refused it.
func (p *podWorker) write(ctx context.Context) error {
	status := p.manual
	if status == nil {
		s := p.life.status(time.Now())
		status = &s
	}
	body, err := patch(p.uid, *status, p.latest().Status.Conditions)
	if err != nil {
		return err
	}
	if string(body) == p.written {
		return nil
	}
	if p.written != "" {
		p.sim.frozen.RLock()
		defer p.sim.frozen.RUnlock()
	}
	p.written = string(body)
	err = p.persist(ctx, func(ctx context.Context) error {
		_, err := p.sim.client.CoreV1().Pods(p.name.Namespace).Patch(
			ctx, p.name.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		err = fmt.Errorf("status of pod %s: %w", p.name, err)
		p.sim.report(err)
	}
	return err
}

// delete removes a pod whose containers have ended, as kubelet does.
func (p *podWorker) delete(ctx context.Context) {
	at := metav1.NewDeleteOptions(0)
	at.Preconditions = metav1.NewUIDPreconditions(string(p.uid))
	err := p.persist(ctx, func(ctx context.Context) error {
		return p.sim.client.CoreV1().Pods(p.name.Namespace).Delete(ctx, p.name.Name, *at)
	})
	if err != nil {
		p.sim.report(fmt.Errorf("deletion of pod %s: %w", p.name, err))
	}
}

// persist repeats a write until it is done, definitely refused, or of no use any more. One that is under way is
// not broken off when ctx ends: the pod may only just have gone.
func (p *podWorker) persist(ctx context.Context, write func(context.Context) error) error {
	for {
		if p.sim.turns != nil {
			p.sim.turns <- struct{}{}
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err := write(call)
		cancel()
		if p.sim.turns != nil {
			<-p.sim.turns
		}
		switch {
		case err == nil, ctx.Err() != nil, apierrors.IsNotFound(err), isOfAnother(err):
			return nil
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isOfAnother reports whether a write was refused because the name is another pod's now.
func isOfAnother(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes,
		func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func (p *podWorker) plan(pod *corev1.Pod) plan {
	plan, err := parsePlan(pod.Annotations[PlanAnnotation])
	if err != nil {
		p.sim.report(fmt.Errorf("pod %s: %w", p.name, err))
	}
	return plan
}

func (p *podWorker) kubelet() *kubelet { return p.sim.kubelet(p.node) }
