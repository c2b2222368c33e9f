// Package filter answers kube-scheduler's Filter and Prioritize: on which nodes a pod fits, why not on the others, and
// how good those that remain are. It books nothing: kube-scheduler repeats both at will.
package filter

import (
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
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Limit is when Filter and Prioritize give up: kube-scheduler schedules one pod at a time.
const Limit = 3 * time.Second

// Book is what Filter reads of the ledger.
type Book interface {
	nodefit.Quotas
	Node(name string) *ledger.View
	Pod(uid string) *ledger.Entry
}

// Gate returns the nodes whose gate takes no more pods, and why.
type Gate interface {
	Refusals() map[string]string
}

// Queue remembers refused pods, to requeue them when there is room (package requeue).
type Queue interface {
	// FilterStarts is called before the ledger is read, and FilterEnds with its result when the answer is known, so
	// that what is released in between is not missed. refusedOn is nil when the pod fits somewhere.
	FilterStarts() (mark int)
	FilterEnds(mark int, r *podrequest.Request, refusedOn []string)
}

// Metrics counts nodes that were refused, by reason.
type Metrics interface {
	Refused(reason string, nodes int)
}

// Filter answers Filter and Prioritize.
type Filter struct {
	Book      Book
	Gate      Gate
	Nominated *nominated.Set
	Queue     Queue
	Recent    *Recent
	Defaults  podrequest.Defaults
	Metrics   Metrics
}

// Filter fits a pod on all candidate nodes.
func (f *Filter) Filter(ctx context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	r, names, err := f.parse(args)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}
	}
	if !r.Devices {
		return &extenderv1.ExtenderFilterResult{NodeNames: &names}
	}
	var refusedOn []string
	mark := f.Queue.FilterStarts()
	defer func() { f.Queue.FilterEnds(mark, r, refusedOn) }() // after a panic, too
	refusals, scores, err := f.rate(ctx, r, names)
	if err != nil {
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}
	}
	sum := addUp(refusals)
	for i := range sum {
		f.Metrics.Refused(sum[i].Reason, sum[i].nodes)
	}
	result := answer(names, refusals, sentences(sum, r))
	if len(*result.NodeNames) == 0 {
		refusedOn = names
		return result
	}
	f.Recent.Put(r)
	scores = slices.DeleteFunc(scores, func(score int64) bool { return score == none })
	f.Recent.last.Store(&rating{r.UID, *result.NodeNames, scores})
	return result
}

// Prioritize scores nodes from 0 to 10 by the pod's node policy. A node that no longer fits scores 0. The lowest score
// is taken off all, and nodes without a score are left out: kube-scheduler adds scores up, so that comes to the same,
// and of a thousand equal nodes it would take longer to read the scores than for everything else. Right after Filter,
// the scores of the nodes that Filter left are known.
func (f *Filter) Prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	if args.Pod != nil && args.NodeNames != nil {
		if scores := f.Recent.scores(string(args.Pod.UID), *args.NodeNames); scores != nil {
			return overLowest(*args.NodeNames, scores), nil
		}
	}
	r, names, err := f.parse(args)
	if err != nil || !r.Devices {
		return extenderv1.HostPriorityList{}, err
	}
	_, scores, err := f.rate(ctx, r, names)
	return overLowest(names, scores), err
}

// overLowest takes the lowest score off all, and leaves out those of 0 then.
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

func (f *Filter) parse(args *extenderv1.ExtenderArgs) (*podrequest.Request, []string, error) {
	if args.Pod == nil {
		return nil, nil, errors.New("the request has no Pod")
	}
	if args.NodeNames == nil {
		return nil, nil, errors.New("the request has no NodeNames: " +
			"set nodeCacheCapable: true for this extender in the scheduler's configuration")
	}
	r, err := podrequest.Parse(args.Pod, f.Defaults)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", args.Pod.Namespace, args.Pod.Name, err)
	}
	return r, *args.NodeNames, nil
}

// none is the score of a node where the pod does not fit.
const none = -1

// rate fits the pod on each node: why it does not fit there, and else the node's score.
func (f *Filter) rate(ctx context.Context, r *podrequest.Request, names []string) ([]nodefit.Refusal, []int64, error) {
	refusals, scores := make([]nodefit.Refusal, len(names)), make([]int64, len(names))
	if over := nodefit.CheckQuota(r, f.Book); over.Refused() {
		for i := range refusals {
			refusals[i], scores[i] = over, none
		}
		return refusals, scores, nil
	}
	shut, ahead, own := f.Gate.Refusals(), f.Nominated.Ahead(r), f.Book.Pod(r.UID)
	err := each(ctx, len(names), func(s *placement.Scratch, i int) {
		v := f.Book.Node(names[i])
		if own != nil && own.Node == names[i] {
			v = v.Without(r.UID) // assumed there: what became of its binding may not be known yet
		}
		score, refusal := nodefit.Fit(s, r, ahead.View(s, v), shut[names[i]], f.Book)
		refusals[i], scores[i] = refusal, int64(math.Round(score*float64(extenderv1.MaxExtenderPriority)))
		if refusal.Refused() {
			scores[i] = none
		}
	})
	return refusals, scores, err
}

// answer sorts the nodes into those that fit and those that refuse, with the sentence for each reason. All refusals are
// reported as ones that eviction does not resolve, because kube-scheduler finds no victims on a node that passed its
// own filters: it would try without each pod of lower priority in vain, and say so of each node in the pod's event and
// condition.
func answer(names []string, refusals []nodefit.Refusal, sentences map[string]string) *extenderv1.ExtenderFilterResult {
	fits := 0
	for i := range refusals {
		if !refusals[i].Refused() {
			fits++
		}
	}
	fit, refused := make([]string, 0, fits), make(extenderv1.FailedNodesMap, len(names)-fits)
	for i := range refusals {
		if refusals[i].Refused() {
			refused[names[i]] = sentences[refusals[i].Reason]
		} else {
			fit = append(fit, names[i])
		}
	}
	return &extenderv1.ExtenderFilterResult{NodeNames: &fit, FailedAndUnresolvableNodes: refused}
}

// each calls do for 0 to n-1, on as many goroutines as there are processors, until the context ends. A panic in do is
// raised again here, so that it costs the request and not the process.
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
