// Package bind turns a placement into a fact: one write to the API server that sets the pod's node and records its
// devices in the same transaction.
//
// A pod is booked before anything else, so that the next Filter sees it. It stays booked until the watch shows it or
// the API server definitely refuses the binding. While an outcome is unknown, the same write is repeated.
package bind

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Book is what binding needs of the ledger.
type Book interface {
	Assume(p ledger.Pod, place func(*ledger.View) (device.Allocation, error)) (device.Allocation, ledger.Delta, error)
	Unassume(uid string) ledger.Delta
	Pod(uid string) *ledger.Entry
}

// Lease tells whether the extender may bind now (package leaderelection).
type Lease interface {
	MayBind(context.Context) error
}

// Requeue takes what an assumption, or its end, changed in the books.
type Requeue interface {
	Observe(ledger.Delta)
}

// Events takes each binding of a pod with devices.
type Events interface {
	Bound(p *podrequest.Request, node string, a device.Allocation)
}

// Metrics counts waits in gates and bindings that failed.
type Metrics interface {
	GateWaited(d time.Duration, entered bool)
	BindFailed(reason string) // see Reasons
}

// Config is what a Binder works with. The methods of Requeue, Events and Metrics must not block.
type Config struct {
	Pods     corev1client.PodsGetter
	Book     Book
	Gate     *gate.Gate
	Lease    Lease
	Recent   *filter.Recent
	Defaults podrequest.Defaults
	Requeue  Requeue
	Events   Events
	Metrics  Metrics
	Now      func() time.Time
	Timeout  time.Duration // of waiting in the gate, and of an answer
	Log      *zap.Logger
}

// Binder binds pods. Its methods may be called from any goroutine.
type Binder struct {
	Config
	stopping context.Context
	stop     context.CancelCauseFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	attempts map[types.UID]*attempt // under way
}

// New returns a binder. Stop ends it.
func New(c Config) *Binder {
	b := &Binder{Config: c, attempts: map[types.UID]*attempt{}}
	b.stopping, b.stop = context.WithCancelCause(context.Background())
	return b
}

// attempt is the binding of one pod to one node. A second call for the same gets its answer.
type attempt struct {
	node string
	done chan struct{}
	err  error // once done
}

// Bind binds a pod to a node, or says why not. When ctx ends it answers at once; an attempt in the gate is then given
// up, one whose outcome is unknown goes on until it is known.
func (b *Binder) Bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) error {
	if args.PodUID == "" || args.PodName == "" || args.Node == "" {
		return fmt.Errorf("bind: PodUID, PodName and Node must be given, got %q, %q and %q",
			args.PodUID, args.PodName, args.Node)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("gave up after %v (--bind-timeout)", b.Timeout))
	defer cancel()
	a, err := b.begin(ctx, args)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", args.PodNamespace, args.PodName, err)
	}
	select {
	case <-a.done:
		err = a.err
	case <-ctx.Done():
		err = fmt.Errorf("the binding to node %s is not resolved: %w", args.Node, context.Cause(ctx))
		select {
		case <-a.done:
			err = a.err
		default:
		}
	}
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", args.PodNamespace, args.PodName, err)
	}
	return nil
}

// begin starts an attempt, or finds the one that is running. ctx bounds its wait in the gate.
func (b *Binder) begin(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*attempt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.attempts[args.PodUID]; a != nil {
		if a.node != args.Node {
			return nil, fmt.Errorf("its binding to node %s is not resolved yet", a.node)
		}
		return a, nil
	}
	if b.stopping.Err() != nil {
		return nil, errStopped
	}
	a := &attempt{node: args.Node, done: make(chan struct{})}
	b.attempts[args.PodUID] = a
	b.running.Go(func() {
		a.err = b.bind(ctx, args)
		if a.err != nil {
			b.Metrics.BindFailed(reasonOf(a.err))
		}
		b.mu.Lock()
		delete(b.attempts, args.PodUID)
		b.mu.Unlock()
		close(a.done)
	})
	return a, nil
}

func (b *Binder) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (err error) {
	booked := false // and nothing posted, so that it can be undone
	defer func() {
		if p := recover(); p != nil { // ends the attempt, not the process
			b.Log.Error("panic", zap.String("pod", args.PodNamespace+"/"+args.PodName), zap.String("node", args.Node),
				zap.Any("panic", p), zap.Stack("stack"))
			err = fmt.Errorf("the binding to node %s failed by a fault of the extender, whose log has more: %v",
				args.Node, p)
			if booked {
				b.undo(string(args.PodUID))
			}
		}
	}()
	if err := b.Lease.MayBind(ctx); err != nil {
		return because(notLeading, err)
	}
	if b.Book.Pod(string(args.PodUID)) != nil {
		// On a node already, or assumed: then an attempt before this one bound it, and only the watch has not shown it
		// yet.
		if bound, err := b.boundAlready(ctx, args); bound || err != nil {
			return err
		}
	}
	p, err := b.pod(ctx, args)
	if err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
	}
	if !p.Devices {
		return b.post(binding)
	}
	booked = true
	a, err := b.enter(ctx, p, args.Node)
	switch {
	case errors.Is(err, ledger.ErrBound):
		b.Gate.Abandon(p.UID)
		_, err = b.boundAlready(ctx, args)
		return err
	case err != nil:
		b.undo(p.UID)
		return err
	}
	binding.Annotations = kube.AllocationAnnotations(a)
	binding.Annotations[wire.NodeAnnotation] = args.Node
	binding.Annotations[wire.TimeAnnotation] = strconv.FormatInt(b.Now().Unix(), 10)
	booked = false // from here on a binding may have been written
	if err := b.post(binding); err != nil {
		b.undo(p.UID)
		return err
	}
	b.Recent.Drop(p.UID)
	b.Events.Bound(p, args.Node, a)
	return nil
}

// pod returns what a pod requests: as Filter saw it, or live.
func (b *Binder) pod(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (*podrequest.Request, error) {
	if p := b.Recent.Get(string(args.PodUID)); p != nil {
		return p, nil
	}
	pod, err := b.Pods.Pods(args.PodNamespace).Get(ctx, args.PodName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if pod.UID != args.PodUID {
		return nil, because(gone,
			fmt.Errorf("has UID %s, not %s: it was deleted and created again", pod.UID, args.PodUID))
	}
	return podrequest.Parse(pod, b.Defaults)
}

// enter books the pod on the node and waits for its turn there. The node may change meanwhile, so the placement is then
// checked once more, and made anew if it no longer fits.
func (b *Binder) enter(ctx context.Context, p *podrequest.Request, node string) (device.Allocation, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(b.stopping, func() { cancel(errStopped) })
	defer stop()
	a, err := b.assume(p, node, nil)
	for err == nil {
		start := b.Now()
		err = b.Gate.Enter(ctx, node, gate.Pod{UID: p.UID, Name: p.String(), Allocation: a, Alone: p.Alone})
		b.Metrics.GateWaited(b.Now().Sub(start), err == nil)
		if err = because(noTurn, err); err != nil {
			break
		}
		if err = because(notLeading, b.Lease.MayBind(ctx)); err != nil {
			break
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		entered := a
		if a, err = b.assume(p, node, entered); err != nil || gate.Identical(a, entered) {
			break
		}
		b.Gate.Abandon(p.UID) // with another allocation it may not be identical to the others inside
	}
	return a, err
}

// assume books the pod on the node: with the allocation it has, or a new one if that no longer fits.
func (b *Binder) assume(p *podrequest.Request, node string, has device.Allocation) (device.Allocation, error) {
	facts := p.Ledger
	facts.Node = node
	a, delta, err := b.Book.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
		if has != nil && placement.Check(v.Placement(), p.Placement, has, 0) == placement.Fits {
			return has, nil
		}
		var s placement.Scratch
		if _, refusal := nodefit.Fit(&s, p, v, "", nil); refusal.Refused() {
			return nil, because(noRoom, fmt.Errorf("no longer fits node %s: %s", node, refusal.Reason))
		}
		return s.Allocation(), nil
	})
	b.Requeue.Observe(delta)
	return a, err
}

// undo ends what enter did, after a definite refusal.
func (b *Binder) undo(uid string) {
	b.Gate.Abandon(uid)
	b.Requeue.Observe(b.Book.Unassume(uid))
}

// boundAlready asks the API server about a pod that the books hold. It returns true when the pod is bound, with an
// error when that is to another node. The answer changes nothing else: the watch may have shown later facts.
func (b *Binder) boundAlready(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (bool, error) {
	pod, err := b.Pods.Pods(args.PodNamespace).Get(ctx, args.PodName, metav1.GetOptions{})
	switch {
	case kube.IsGone(pod, err, args.PodUID):
		return false, errGone
	case err != nil:
		return false, err
	case pod.Spec.NodeName == "":
		return false, nil
	case pod.Spec.NodeName != args.Node:
		return true, fmt.Errorf("is bound to node %s already", pod.Spec.NodeName)
	}
	return true, nil
}

// Stop gives up what waits in the gate or for a definite answer, and returns when nothing is under way any more or the
// context ends. Nothing is bound afterwards.
func (b *Binder) Stop(ctx context.Context) {
	b.mu.Lock()
	b.stop(errStopped)
	b.mu.Unlock()
	idle := make(chan struct{})
	go func() { b.running.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

var (
	errStopped = errors.New("the extender is shutting down")
	errGone    = errors.New("the pod is gone")
)
