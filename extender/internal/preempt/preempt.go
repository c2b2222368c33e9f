// Package preempt answers kube-scheduler's Preempt: on which nodes, and by whose eviction, a pod gets room on
// devices that kube-scheduler does not see.
package preempt

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Limit is when Preempt stops to look at further nodes: kube-scheduler schedules one pod at a time.
const Limit = 3 * time.Second

// Book is what Preempt reads of the ledger.
type Book interface {
	Node(name string) *ledger.View
	CheckQuotaWithout(namespace string, uids []string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Preempt answers Preempt. What the books do not keep, because it is asked so seldom, is read from the API server.
type Preempt struct {
	Book      Book
	Gate      func() map[string]string // nodes whose gate takes no more pods, and why
	Nominated *nominated.Set
	Defaults  podrequest.Defaults
	Pods      func(ctx context.Context, node string) ([]corev1.Pod, error) // that have this node
	Budgets   func(ctx context.Context) ([]policyv1.PodDisruptionBudget, error)
}

// Preempt returns the nodes on which the pod fits, by Filter's rules, once the victims there are gone: those that
// are given and, where that is not enough, as few others as it takes. A node on which nobody need go is left out,
// because kube-scheduler takes an empty list for a mistake, and its next Filter finds the room. Where only pods
// that are ending already are in the way, the answer is of such nodes alone: nobody else need go.
//
// An error without a result is of arguments that are none of kube-scheduler's; one beside a result says on which
// nodes nothing could be found out.
func (p *Preempt) Preempt(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	pod, asked, err := p.read(args)
	if err != nil {
		return nil, err
	}
	if !pod.Devices {
		return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: asked}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("gave up after %v", Limit))
	defer cancel()
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	var scratch placement.Scratch
	on := p.trials(&scratch, pod)
	if waits, err := p.waits(ctx, on, pod); waits || err != nil {
		return result, err
	}
	shut := p.Gate()
	var short []*trial
	for node, given := range asked {
		if _, ok := shut[node]; ok {
			continue
		}
		t := on(node, given)
		switch {
		case t.fits():
			if len(given.Pods) > 0 {
				result.NodeNameToMetaVictims[node] = given
			}
		case t.fits(t.everybody()...):
			short = append(short, t)
		}
	}
	if never := args.Pod.Spec.PreemptionPolicy; never != nil && *never == corev1.PreemptNever {
		short = nil
	}
	err = p.more(ctx, short, result.NodeNameToMetaVictims)
	return result, err
}

// waits reports whether the pod was nominated to a node where those who are ending leave enough room: then it waits
// for them, and nobody else is evicted elsewhere meanwhile. kube-scheduler looks at that itself, but not at a node of
// which it was told that eviction would not help.
func (p *Preempt) waits(ctx context.Context, on trials, pod *podrequest.Pod) (bool, error) {
	if pod.Nominated == "" {
		return false, nil
	}
	t := on(pod.Nominated, &extenderv1.MetaVictims{})
	if t.fits() || !t.fits(t.everybody()...) {
		return false, nil
	}
	pods, err := p.Pods(ctx, t.node)
	if err != nil {
		return false, fmt.Errorf("listing the pods of node %s, to which pod %v was nominated: %w", t.node, pod, err)
	}
	ending, _ := t.holders(lower(pods, pod.Priority))
	return t.fits(uids(ending)...), nil
}

// more adds to the answer, where short nodes are given more victims, those on which the pod then fits.
func (p *Preempt) more(ctx context.Context, short []*trial, answer map[string]*extenderv1.MetaVictims) error {
	if len(short) == 0 {
		return nil
	}
	budgets, err := p.Budgets(ctx)
	if err != nil {
		return fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	limits := limitsOf(budgets)
	waiting := map[string]*extenderv1.MetaVictims{}
	var failed error
	count := 0
	p.eachNode(ctx, short, func(t *trial, pods []corev1.Pod, err error) {
		if err != nil {
			failed = err
			count++
			return
		}
		all := lower(pods, t.pod.Priority)
		violating(all, limits)
		picked, ok := t.choose(all)
		if !ok || len(t.asked.Pods)+len(picked) == 0 { // nobody helps, or nobody need go any more
			return
		}
		answer[t.node] = t.victims(all, picked)
		if len(t.asked.Pods) == 0 && !anew(picked) {
			waiting[t.node] = answer[t.node]
		}
	})
	if len(waiting) > 0 {
		clear(answer)
		maps.Copy(answer, waiting)
	}
	if failed != nil {
		return fmt.Errorf("listing the pods of %d of %d nodes: %w", count, len(short), failed)
	}
	return nil
}

// atOnce is how many nodes' pods are read at a time.
const atOnce = 16

// eachNode reads the pods of nodes and calls do for each in turn, so that those of few nodes are in memory.
func (p *Preempt) eachNode(ctx context.Context, trials []*trial, do func(*trial, []corev1.Pod, error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		*trial
		pods []corev1.Pod
		err  error
	}
	next, answers := make(chan *trial, len(trials)), make(chan answer)
	for _, t := range trials {
		next <- t
	}
	close(next)
	for range min(atOnce, len(trials)) {
		go func() {
			for t := range next {
				pods, err := p.Pods(ctx, t.node)
				select {
				case answers <- answer{t, pods, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for range trials {
		select {
		case a := <-answers:
			do(a.trial, a.pods, a.err)
		case <-ctx.Done(): // and so it will be for the others
			do(nil, nil, context.Cause(ctx))
		}
	}
}
