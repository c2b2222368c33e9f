// Package filter answers kube-scheduler's Filter and Prioritize: on which nodes a pod fits, why not on
// the others, and how good those that remain are. It books nothing: kube-scheduler repeats both at will.
package filter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Limit is when Filter and Prioritize give up: kube-scheduler schedules one pod at a time.
const Limit = 3 * time.Second

// Book is what Filter reads of the ledger.
type Book interface {
	Node(name string) *ledger.View
	Pod(uid string) *ledger.Entry
	CheckQuota(namespace, uid string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Refused remembers the pods that were turned away, to wake them when there is room (package requeue).
type Refused interface {
	// Begin is called before the books are read, and End with its result when the answer is known, so
	// that what is released in between is not missed. nodes are those the pod was refused on, nil when
	// it passed somewhere.
	Begin() (mark int)
	End(mark int, p *podrequest.Pod, nodes []string)
}

// Filter answers Filter and Prioritize.
type Filter struct {
	Book      Book
	Gate      func() map[string]string // nodes whose gate takes no more pods, and why
	Nominated *nominated.Set
	Refused   Refused
	Recent    *podrequest.Recent
	Defaults  podrequest.Defaults
	Count     func(reason string, nodes int) // told how many nodes were refused for each reason

	last atomic.Pointer[rating]
}

// rating is the answer to a Filter call, from which that to the Prioritize call after it follows.
type rating struct {
	uid    string
	nodes  []string // on which the pod fits
	scores []int64  // of each of them
}

// Filter fits a pod on all candidate nodes.
func (f *Filter) Filter(ctx context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	p, names, err := f.read(args)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}
	}
	if !p.Devices {
		return &extenderv1.ExtenderFilterResult{NodeNames: &names}
	}
	var refusedOn []string
	mark := f.Refused.Begin()
	defer func() { f.Refused.End(mark, p, refusedOn) }() // after a panic, too
	refusals, scores, err := f.judge(ctx, p, names)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}
	}
	sum := add(refusals)
	for i := range sum {
		f.Count(sum[i].kind(), sum[i].nodes)
	}
	result := f.collect(names, refusals, told(sum, p))
	if len(*result.NodeNames) == 0 {
		refusedOn = names
	} else {
		f.Recent.Put(p) // Bind may be next
	}
	f.last.Store(&rating{p.UID, *result.NodeNames, slices.DeleteFunc(scores, func(score int64) bool { return score == none })})
	return result
}

// Prioritize scores nodes from 0 to 10 by the pod's node policy. A node that no longer fits scores 0. Scores are
// over the lowest of all, and nodes that have none over it are left out: kube-scheduler adds the scores up, so that
// comes to the same, and of a thousand nodes that are alike it would take longer to read the scores than for
// everything else. What is asked right after Filter, of the nodes that Filter left, was found then.
func (f *Filter) Prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	p, names, err := f.read(args)
	if err != nil || !p.Devices {
		return extenderv1.HostPriorityList{}, err
	}
	if last := f.last.Load(); last != nil && last.uid == p.UID && slices.Equal(last.nodes, names) {
		return overLowest(names, last.scores), nil
	}
	_, scores, err := f.judge(ctx, p, names)
	return overLowest(names, scores), err
}

// overLowest takes away from all scores what all have, and leaves out those of 0 then.
func overLowest(names []string, scores []int64) extenderv1.HostPriorityList {
	lowest := int64(math.MaxInt64)
	for _, score := range scores {
		lowest = min(lowest, max(score, 0))
	}
	over := make(extenderv1.HostPriorityList, 0, len(scores))
	for i, score := range scores {
		if score > lowest {
			over = append(over, extenderv1.HostPriority{Host: names[i], Score: score - lowest})
		}
	}
	return over
}

func (f *Filter) read(args *extenderv1.ExtenderArgs) (*podrequest.Pod, []string, error) {
	if args.Pod == nil {
		return nil, nil, errors.New("the request has no Pod")
	}
	if args.NodeNames == nil {
		return nil, nil, errors.New("the request has no NodeNames: set nodeCacheCapable: true for this extender in the scheduler's configuration")
	}
	p, err := podrequest.Read(args.Pod, f.Defaults)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", args.Pod.Namespace, args.Pod.Name, err)
	}
	return p, *args.NodeNames, nil
}

// none is the score of a node where the pod cannot go.
const none = -1

// judge says for each node why the pod cannot go there, the zero Refusal where it can, and then how good the node is.
func (f *Filter) judge(ctx context.Context, p *podrequest.Pod, names []string) ([]podrequest.Refusal, []int64, error) {
	refusals, scores := make([]podrequest.Refusal, len(names)), make([]int64, len(names))
	if err := f.Book.CheckQuota(p.Namespace, p.UID, p.Ledger.Scope, p.Charges); err != nil {
		for i := range refusals {
			refusals[i], scores[i] = quota(err), none
		}
		return refusals, scores, nil
	}
	shut, view, before := f.Gate(), f.without(p), f.Nominated.Before(p)
	err := each(ctx, len(names), func(s *placement.Scratch, i int) {
		score, refusal := f.rate(s, p, before.View(s, view(names[i])))
		if why, ok := shut[names[i]]; ok && refusal.Reason == "" {
			refusal.Reason = why // what passes by itself is said only when nothing else is in the way
		}
		refusals[i], scores[i] = refusal, int64(math.Round(score*float64(extenderv1.MaxExtenderPriority)))
		if refusal.Reason != "" {
			scores[i] = none
		}
	})
	return refusals, scores, err
}

// without returns the books of nodes as they would be without the pod, which may be assumed on one: its
// binding can have failed in a way that nobody knows yet.
func (f *Filter) without(p *podrequest.Pod) func(node string) *ledger.View {
	own := f.Book.Pod(p.UID)
	return func(node string) *ledger.View {
		v := f.Book.Node(node)
		if own != nil && own.Node == node {
			return v.Without(p.UID)
		}
		return v
	}
}

// rate says why the pod cannot go on a node, or how good the node is, from 0 to 1.
func (f *Filter) rate(s *placement.Scratch, p *podrequest.Pod, v *ledger.View) (float64, podrequest.Refusal) {
	score, refusal := p.Rate(s, v)
	if refusal.Reason != "" || p.Settled {
		return score, refusal
	}
	// Now that a device is chosen, the namespace's charge is known too.
	charges, err := p.Totals(s.Allocation())
	if err == nil {
		err = f.Book.CheckQuota(p.Namespace, p.UID, p.Ledger.Scope, charges)
	}
	if err != nil {
		return 0, quota(err)
	}
	return score, podrequest.Refusal{}
}

// quota tells the numbers.
func quota(err error) podrequest.Refusal {
	r := podrequest.Refusal{Reason: overQuota + ": " + err.Error(), Kind: overQuota}
	if e := (*ledger.QuotaError)(nil); errors.As(err, &e) {
		r.Misses = e.Asked - (e.Limit.Max - e.Used)
	}
	return r
}

// collect sorts the nodes into those that fit and those that refuse; told is the sentence for each kind of refusal. All
// refusals are reported as ones that eviction does not resolve, because kube-scheduler finds no victims on a node that
// passed its own filters: it would try without each pod of lower priority in vain, and say so of each node in the pod's
// event and condition.
func (f *Filter) collect(names []string, refusals []podrequest.Refusal, told map[string]string) *extenderv1.ExtenderFilterResult {
	fits := 0
	for i := range refusals {
		if refusals[i].Reason == "" {
			fits++
		}
	}
	fit, refused := make([]string, 0, fits), make(extenderv1.FailedNodesMap, len(names)-fits)
	for i := range refusals {
		if r := &refusals[i]; r.Reason == "" {
			fit = append(fit, names[i])
		} else {
			refused[names[i]] = told[cmp.Or(r.Kind, r.Reason)]
		}
	}
	return &extenderv1.ExtenderFilterResult{NodeNames: &fit, FailedAndUnresolvableNodes: refused}
}

// each calls do for 0 to n-1, on as many goroutines as there are processors, until the context ends. A panic in
// do is one in each, so that it costs the request, as others do, and not the process.
func each(ctx context.Context, n int, do func(s *placement.Scratch, i int)) error {
	const chunk = 32
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("gave up after %v", Limit))
	defer cancel()
	var next atomic.Int64
	var panicked atomic.Pointer[string]
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					what := fmt.Sprintf("%v\n%s", p, debug.Stack())
					panicked.Store(&what)
					cancel()
				}
			}()
			var s placement.Scratch
			for ctx.Err() == nil {
				start := int(next.Add(chunk)) - chunk
				if start >= n {
					return
				}
				for i := start; i < min(start+chunk, n); i++ {
					do(&s, i)
				}
			}
		})
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
