package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// ends are the remedies that come by themselves: init containers that end.
func (q *query) ends() []Remedy {
	return q.events("end", func(e *ledger.Entry) int {
		if next := q.next(e); len(next) > 0 {
			return next[len(next)-1]
		}
		return e.First
	})
}

// deletions are the remedies of pods that end, or are deleted.
func (q *query) deletions() []Remedy {
	return q.events("delete", func(*ledger.Entry) int { return phase.None })
}

// events finds the nodes on which the fewest pods have to become less, each at most what last gives, for the pod to
// fit.
func (q *query) events(kind string, last func(*ledger.Entry) int) []Remedy {
	var found []Remedy
	single := 0
	for _, node := range q.Cluster.NodeList() {
		r := q.refused[node.Name]
		if r == nil || !byDevices(r) || !passes(r) {
			continue
		}
		events := q.fewest(node, last)
		if len(events) == 0 {
			continue
		}
		var words []string
		for i := range events {
			words = append(words, events[i].words())
		}
		way := remedy(kind, "it fits on %s when %s", node.Name, strings.Join(words, ", and "))
		way.Nodes, way.Events = []string{node.Name}, events
		found = append(found, way)
		if len(events) == 1 {
			if single++; single == maxWays {
				break
			}
		}
	}
	slices.SortStableFunc(found, func(x, y Remedy) int { return cmp.Compare(len(x.Events), len(y.Events)) })
	return found[:min(len(found), maxWays)]
}

// fewest returns what has to end on a node so that the pod fits, none of it superfluous; nil when all that last
// gives is not enough.
func (q *query) fewest(node *corev1.Node, last func(*ledger.Entry) int) []Event {
	view := q.Cluster.View(node.Name)
	from := map[*ledger.Entry]int{}
	var ending []*ledger.Entry
	for _, e := range sorted(view.Pods) {
		if k := last(e); k != e.First {
			from[e] = k
			ending = append(ending, e)
		}
	}
	t := q.trial()
	t.First = func(e *ledger.Entry) int {
		if k, ok := from[e]; ok {
			return k
		}
		return e.First
	}
	fits := func() bool { return q.Cluster.Try(node, t) }
	if len(ending) == 0 || !fits() {
		return nil
	}
	for _, e := range ending { // those that hold least go first: what remains is few
		k := from[e]
		if delete(from, e); !fits() {
			from[e] = k
		}
	}
	for _, e := range ending {
		k, needed := from[e]
		if !needed || k == phase.None {
			continue
		}
		for _, earlier := range q.next(e) {
			if from[e] = earlier; fits() {
				break
			}
		}
	}
	var events []Event
	for _, e := range ending {
		if k, needed := from[e]; needed {
			events = append(events, q.event(e, k))
		}
	}
	return events
}

// event is that a pod's first phase becomes k.
func (q *query) event(e *ledger.Entry, k int) Event {
	event := Event{Namespace: e.Namespace, Pod: e.Name, Releases: []Release{}}
	if k != phase.None {
		event.Container = q.endOf(e, k)
	}
	after, _ := e.Classes.Reserved(e.Allocation, k) // no error, else e would have a problem
	for _, h := range e.Reserved.Devices {
		if less := lost(h.Usage, onDevice(h.UUID)(after)); less != (report.Amount{}) {
			event.Releases = append(event.Releases, Release{UUID: h.UUID, Amount: less})
		}
	}
	if pod, r := q.Cluster.Pod(e), q.refused[e.Node]; k == phase.None && pod != nil && r != nil && r.Count != nil {
		held := report.Amount{Slots: fit.Held(pod, r.Count.Resource)}
		event.Releases = append(event.Releases, Release{Resource: string(r.Count.Resource), Amount: held})
	}
	return event
}

func (e *Event) words() string {
	text := fmt.Sprintf("init container %s of %s/%s ends", e.Container, e.Namespace, e.Pod)
	if e.Container == "" {
		text = fmt.Sprintf("pod %s/%s ends or is deleted", e.Namespace, e.Pod)
	}
	var parts []string
	for _, r := range e.Releases {
		parts = append(parts, r.words())
	}
	if len(parts) > 0 {
		text += ", releasing " + render.And(parts)
	}
	return text
}

func (r *Release) words() string {
	from := r.UUID
	switch {
	case r.Resource != "":
		return fmt.Sprintf("%d of %s", r.Slots, r.Resource)
	case r.Quota != "":
		from = "quota " + r.Quota
	}
	return r.Freed() + " of " + from
}

// charges returns, by family, the least that a namespace is charged for a pod.
func charges(p *placement.Pod) (map[string]ledger.Charge, error) {
	c, _, err := kube.Charges(p.Classes, p.Requests)
	return c, err
}

// quotaRemedies are the ways to make room in a quota.
func (q *query) quotaRemedies(s *Shortage) []Remedy {
	where := fmt.Sprintf("%s of ResourceQuota %s/%s", s.Resource, q.Pod.Namespace, s.Quota)
	if s.Unreadable != "" {
		return []Remedy{remedy("quota", "mend what cannot be read for %s: %s", where, s.Unreadable)}
	}
	all := []Remedy{remedy("quota", "raise %s by %s%d, to %d", where, s.atLeast(), s.RaiseBy, s.RaiseTo)}
	amount := func(r Release) int64 {
		if s.dimension == ledger.Cores {
			return r.Cores
		}
		return r.MemoryMiB
	}
	// The pods that release most first, so that they are few; of the last of them no more than what is missing.
	holders := slices.Clone(s.Holders)
	slices.SortStableFunc(holders, func(x, y report.Holder) int {
		return cmp.Compare(amount(released(y.Steps, s.Quota)), amount(released(x.Steps, s.Quota)))
	})
	var events []Event
	var words []string
	sum := int64(0)
	for _, h := range holders {
		for n := range h.Steps {
			r := released(h.Steps[:n+1], s.Quota)
			if last := n == len(h.Steps)-1; amount(r) == 0 || sum+amount(r) < s.Missing && !last {
				continue
			}
			e := Event{Namespace: h.Namespace, Pod: h.Name, Container: h.Steps[n].After, Releases: []Release{r}}
			events, words, sum = append(events, e), append(words, e.words()), sum+amount(r)
			break
		}
		if sum >= s.Missing {
			r := remedy("quotaEnd", "ResourceQuota %s/%s has room when %s", q.Pod.Namespace, s.Quota,
				strings.Join(words, ", and "))
			r.Events = events
			return append(all, r)
		}
	}
	return all
}

// released sums what steps give back of a quota.
func released(steps []report.Step, quota string) Release {
	r := Release{Quota: quota}
	for _, step := range steps {
		r.Amount = r.Plus(step.Releases)
	}
	return r
}
