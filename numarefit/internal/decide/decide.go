// Package decide answers one question for a refit: read, decide, write once.
//
// Nothing is remembered between questions and nothing is locked. What a decision was made from cannot
// have changed when the write is carried out: the write names the pod's resourceVersion, and while the
// pod is as it was read, it is the one in the node's gate, so nothing else is bound there.
package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// attempts is how often a question is decided afresh when its write met a change, or nobody said what
// became of it.
const attempts = 2

// Store is the API server, read consistently. Errors are the API server's own.
type Store interface {
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	PodsOn(ctx context.Context, node string) ([]corev1.Pod, error)
	// Annotate sets one annotation of the pod if the pod is still exactly the one given.
	Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error
}

// Decider answers questions. It has no state.
type Decider struct {
	Store    Store
	Defaults refit.Defaults
	// Settle is how long, after a question's own time, the API server is asked what became of a write.
	Settle time.Duration
}

// Outcome is what became of a question: an answer or a refusal.
type Outcome struct {
	Answer  *refit.Answer
	Refusal *refit.Refusal
	// Pod is the pod as it was read last, nil when there is none on the node that was asked for.
	Pod *corev1.Pod
}

// Refit answers a question whose caller may ask for that node. With a refusal nothing was changed, but
// for TooLate and Unavailable, whose message says so when a write's outcome is not known.
func (d *Decider) Refit(ctx context.Context, r *refit.Request) Outcome {
	var o Outcome
	var sent writes
	for range attempts {
		var decision refit.Decision
		decision, o = d.look(ctx, r, o.Pod)
		if done := sent.recorded(o.Pod); done != nil {
			return moved(o.Pod, r, done)
		}
		if o.Refusal != nil {
			break
		}
		if !decision.Changed {
			o.Answer = &refit.Answer{Devices: decision.Devices(r.Container.Position)}
			return o
		}
		err := d.Store.Annotate(ctx, o.Pod, decision.Annotation, decision.Value)
		if err == nil {
			return moved(o.Pod, r, &decision)
		}
		o.Refusal = failed("recording the devices of pod "+name(r), err)
		verdict := judge(err)
		if verdict == refused {
			break
		}
		if verdict == contested {
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

// look reads what the API server holds and decides. last is the pod as read before.
func (d *Decider) look(ctx context.Context, r *refit.Request, last *corev1.Pod) (refit.Decision, Outcome) {
	pod, err := d.Store.Pod(ctx, r.Pod.Namespace, r.Pod.Name)
	if ignoreNotFound(err) != nil {
		return refit.Decision{}, Outcome{Refusal: failed("reading pod "+name(r), err), Pod: last}
	}
	if err != nil {
		pod = nil
	}
	if refusal := refit.Owns(pod, r); refusal != nil {
		return refit.Decision{}, Outcome{Refusal: refusal}
	}
	node, err := d.Store.Node(ctx, r.Node)
	if ignoreNotFound(err) != nil {
		return refit.Decision{}, Outcome{Refusal: failed("reading node "+r.Node, err), Pod: pod}
	}
	if err != nil {
		node = nil
	}
	pods, err := d.Store.PodsOn(ctx, r.Node)
	if err != nil {
		return refit.Decision{}, Outcome{Refusal: failed("reading the pods of node "+r.Node, err), Pod: pod}
	}
	decision, refusal := refit.Decide(pod, node, pods, r, d.Defaults)
	return decision, Outcome{Refusal: refusal, Pod: pod}
}

// write is a patch of which nobody said whether it was carried out.
type write struct {
	decision *refit.Decision
	version  string // the resourceVersion that it needs
}

type writes []write

// recorded returns the decision that a pod's record is of, nil when it is of none.
func (ws writes) recorded(pod *corev1.Pod) *refit.Decision {
	for _, w := range ws {
		if pod != nil && pod.Annotations[w.decision.Annotation] == w.decision.Value {
			return w.decision
		}
	}
	return nil
}

// pending reports whether a write may yet be carried out, the pod being as it is.
func (ws writes) pending(pod *corev1.Pod) bool {
	return slices.ContainsFunc(ws, func(w write) bool { return w.version == pod.ResourceVersion })
}

// settle asks the API server what became of writes, and says what it holds.
func (d *Decider) settle(ctx context.Context, r *refit.Request, sent writes, o Outcome) Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Settle)
	defer cancel()
	pod, err := d.Store.Pod(ctx, r.Pod.Namespace, r.Pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		return Outcome{Refusal: refit.Owns(nil, r)}
	case err != nil:
		o.Refusal.Message += "; what became of a write before is not known: ask again"
		return o
	}
	if refusal := refit.Owns(pod, r); refusal != nil {
		return Outcome{Refusal: refusal}
	}
	if done := sent.recorded(pod); done != nil {
		return moved(pod, r, done)
	}
	o.Pod = pod
	if sent.pending(pod) {
		o.Refusal.Message += "; a write before was not carried out yet when the pod was read last: ask again"
	}
	return o
}

func moved(pod *corev1.Pod, r *refit.Request, d *refit.Decision) Outcome {
	return Outcome{Answer: &refit.Answer{Devices: d.Devices(r.Container.Position), Moved: true}, Pod: pod}
}

// failed says that the API server did not do something.
func failed(what string, err error) *refit.Refusal {
	reason := refit.Unavailable
	switch {
	case apierrors.IsNotFound(err):
		reason = refit.PodGone
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		reason = refit.TooLate
	}
	return &refit.Refusal{Reason: reason, Message: fmt.Sprintf("%s: %v", what, err)}
}

func name(r *refit.Request) string { return r.Pod.Namespace + "/" + r.Pod.Name }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
