// Package decide handles one refit request: read, decide, write once.
//
// It keeps no state and takes no lock. What a decision was based on cannot have changed when the write is carried out:
// the write has the pod's resourceVersion as a precondition, and while the pod is unchanged it is the one in the node's
// gate, so that no other pod is bound there.
package decide

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// attempts is how often a request is decided: once more after a conflict, or a write with an unknown outcome.
const attempts = 2

// Store is the API server. Reads are consistent; errors are the API server's own.
type Store interface {
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	PodsOn(ctx context.Context, node string) ([]corev1.Pod, error)
	// Annotate sets one annotation of the pod if the pod has not changed since it was read.
	Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error
}

// Decider handles requests. It has no state.
type Decider struct {
	Store    Store
	Defaults refit.Defaults
	// Settle bounds the read that finds a write's outcome. It comes after the request's own time.
	Settle time.Duration
}

// Outcome is the response to a request.
type Outcome struct {
	refit.Response
	Pod *corev1.Pod // as last read; nil if the request's node does not have it
}

// Refused returns the outcome of a request that is refused.
func Refused(refusal *refit.Refusal, pod *corev1.Pod) Outcome {
	return Outcome{refit.Response{Refusal: refusal}, pod}
}

// Refit handles a request whose caller may ask about that node. After a refusal nothing has changed, except after
// TooLate and Unavailable: their message says when a write's outcome is not known.
func (d *Decider) Refit(ctx context.Context, r *refit.Request) Outcome {
	var o Outcome
	var sent writes
	for range attempts {
		var decision refit.Decision
		decision, o = d.look(ctx, r, o.Pod)
		if done := sent.recorded(o.Pod); done != nil {
			return answered(o.Pod, r, done)
		}
		if o.Refusal != nil {
			break
		}
		if !decision.Changed {
			return answered(o.Pod, r, &decision)
		}
		err := d.Store.Annotate(ctx, o.Pod, decision.Annotation, decision.Value)
		if err == nil {
			return answered(o.Pod, r, &decision)
		}
		o.Refusal = failed("recording the devices of pod "+name(r), err)
		outcome := kube.WriteOutcome(err)
		if outcome == kube.Refused || outcome == kube.Gone {
			break
		}
		if outcome == kube.Conflict {
			o.Refusal.Reason = refit.Conflict
		} else {
			sent = append(sent, write{&decision, o.Pod.ResourceVersion})
		}
	}
	if len(sent) > 0 {
		return d.settle(ctx, r, sent, o)
	}
	return o
}

// look reads what the API server has and decides. last is the pod as read before.
func (d *Decider) look(ctx context.Context, r *refit.Request, last *corev1.Pod) (refit.Decision, Outcome) {
	none := refit.Decision{}
	pod, err := d.Store.Pod(ctx, r.Pod.Namespace, r.Pod.Name)
	if apierrors.IsNotFound(err) {
		pod = nil
	} else if err != nil {
		return none, Refused(failed("reading pod "+name(r), err), last)
	}
	if refusal := refit.Owns(pod, r); refusal != nil {
		return none, Refused(refusal, nil)
	}
	node, err := d.Store.Node(ctx, r.Node)
	if apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return none, Refused(failed("reading node "+r.Node, err), pod)
	}
	pods, err := d.Store.PodsOn(ctx, r.Node)
	if err != nil {
		return none, Refused(failed("reading the pods of node "+r.Node, err), pod)
	}
	decision, refusal := refit.Decide(pod, node, pods, r, d.Defaults)
	return decision, Refused(refusal, pod)
}

// write is a patch whose outcome is not known.
type write struct {
	decision *refit.Decision
	version  string // its precondition: the pod's resourceVersion
}

type writes []write

// recorded returns the decision that is the pod's record now, or nil.
func (ws writes) recorded(pod *corev1.Pod) *refit.Decision {
	for _, w := range ws {
		if pod != nil && pod.Annotations[w.decision.Annotation] == w.decision.Value {
			return w.decision
		}
	}
	return nil
}

// pending reports whether a write may still be carried out on the pod as it is.
func (ws writes) pending(pod *corev1.Pod) bool {
	return slices.ContainsFunc(ws, func(w write) bool { return w.version == pod.ResourceVersion })
}

// settle finds the outcome of writes.
func (d *Decider) settle(ctx context.Context, r *refit.Request, sent writes, o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Settle)
	defer cancel()
	pod, err := d.Store.Pod(ctx, r.Pod.Namespace, r.Pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		return Refused(refit.Owns(nil, r), nil)
	case err != nil:
		o.Refusal.Message += "; the outcome of an earlier write is not known: ask again"
		return o
	}
	if refusal := refit.Owns(pod, r); refusal != nil {
		return Refused(refusal, nil)
	}
	if done := sent.recorded(pod); done != nil {
		return answered(pod, r, done)
	}
	o.Pod = pod
	if sent.pending(pod) {
		o.Refusal.Message += "; an earlier write was not carried out yet when the pod was last read: ask again"
	}
	return o
}

func answered(pod *corev1.Pod, r *refit.Request, d *refit.Decision) Outcome {
	answer := &refit.Answer{Devices: d.Devices(r.Container.Position), Moved: d.Changed}
	return Outcome{refit.Response{Answer: answer}, pod}
}

// failed returns the refusal for an error of the API server.
func failed(what string, err error) *refit.Refusal {
	reason := refit.Unavailable
	switch {
	case apierrors.IsNotFound(err):
		reason = refit.PodGone
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		reason = refit.TooLate
	}
	return refit.Refuse(reason, "%s: %v", what, err)
}

func name(r *refit.Request) string { return r.Pod.Namespace + "/" + r.Pod.Name }
