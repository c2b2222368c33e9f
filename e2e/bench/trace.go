package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// trace follows the pods of one round through the audit log.
type trace struct {
	log      *controlplane.AuditLog
	created  map[string]time.Time // by name
	bound    map[string]time.Time
	requests []controlplane.Request
}

func newTrace(log *controlplane.AuditLog) *trace {
	return &trace{log: log, created: map[string]time.Time{}, bound: map[string]time.Time{}}
}

// skip leaves out what was asked before.
func (t *trace) skip() error {
	_, err := t.log.Next()
	return err
}

// read takes what is new in the log.
func (t *trace) read() error {
	requests, err := t.log.Next()
	for _, r := range requests {
		if r.Namespace != namespace || r.Verb != "create" || r.Code != http.StatusCreated {
			continue
		}
		switch r.Resource {
		case "pods":
			t.created[r.Name] = r.Answered
		case "pods/binding":
			t.bound[r.Name] = r.Answered
		}
	}
	t.requests = append(t.requests, requests...)
	return err
}

// await waits until so many pods are bound.
func (t *trace) await(ctx context.Context, n int) error {
	return stack.Within(ctx, patience, fmt.Sprintf("%d pods are bound", n), func(context.Context) error {
		if err := t.read(); err != nil {
			return err
		}
		if len(t.bound) < n {
			return fmt.Errorf("%d are", len(t.bound))
		}
		return nil
	})
}

// sinceFirst returns when each pod was bound, since the first was, sorted, and how long that is ago now.
func (t *trace) sinceFirst(now time.Time) (bound []time.Duration, ago time.Duration) {
	var first time.Time
	for _, at := range t.bound {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	var all []time.Duration
	for _, at := range t.bound {
		all = append(all, at.Sub(first))
	}
	return sorted(all), now.Sub(first)
}

// waited returns how long each pod waited from the answer to its creation to the answer to its binding, sorted. A
// scheduler that hears of a pod before its creator does can bind it in no time.
func (t *trace) waited() ([]time.Duration, error) {
	var all []time.Duration
	for name, bound := range t.bound {
		created, ok := t.created[name]
		if !ok {
			return nil, fmt.Errorf("pod %s was bound, and the audit log has no creation of it", name)
		}
		all = append(all, max(0, bound.Sub(created)))
	}
	return sorted(all), nil
}

// perPod returns how many requests of each kind there were until now for each pod of the round. Leases are left
// out: they are renewed by the clock. So are the pods whose init containers finish.
func (t *trace) perPod(pods int) (map[Call]float64, error) {
	now := time.Now()
	if err := t.read(); err != nil {
		return nil, err
	}
	calls := map[Call]float64{}
	for _, r := range t.requests {
		if r.Answered.Before(now) && r.Namespace == namespace && r.Resource != "leases" {
			calls[Call{r.Agent, r.Verb, r.Resource}] += 1 / float64(pods)
		}
	}
	return calls, nil
}
