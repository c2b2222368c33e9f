package app

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// ObservePod implements kube.Observer.
func (e *Extender) ObservePod(old, new *corev1.Pod, before *ledger.Entry, d ledger.Delta) {
	uid := string(cmp.Or(new, old).UID)
	now := e.book.Pod(uid)
	switch {
	case new == nil:
		e.gate.Leave(uid)
	case now == nil:
		e.gate.Observe(new, nil)
	default:
		e.gate.Observe(new, now.Allocation)
	}
	e.nominated.Bound(uid, new)
	e.requeue.Remove(uid)
	if d.Changed && e.lease.Leads() {
		e.events.Observed(before, new, d, now, e.book.Node(d.Node))
	}
	e.requeue.Observe(d)
}

// CatchUp brings the books up to date with what other extenders have bound.
func (e *Extender) CatchUp(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return e.feed.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, synced); err != nil {
		return err
	}
	changed, err := e.feed.Relist(ctx, func(pod *corev1.Pod, truth *ledger.Pod) {
		e.gate.Observe(pod, truth.Allocation)
		e.requeue.Remove(string(pod.UID))
	})
	for _, d := range changed {
		e.requeue.Observe(d)
	}
	return err
}

// Observe implements kube.Observer.
func (e *Extender) Observe(d ledger.Delta) { e.requeue.Observe(d) }

// ObserveProblem implements kube.Observer.
func (e *Extender) ObserveProblem(kind, object string, err error) {
	e.metrics.Unreadable(kind)
	e.log.Warn("cannot be read", zap.String("kind", kind), zap.String("object", object), zap.Error(err))
}
