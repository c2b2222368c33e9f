package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/phase"
)

// Charge is what a namespace, or one of its pods, is charged for one family.
type Charge = phase.Charge

// Dimension is what a quota limits.
type Dimension uint8

// The dimensions of a quota: MiB × devices and percent × devices.
const (
	Memory Dimension = iota
	Cores
)

// of returns a charge's amount in the dimension.
func (d Dimension) of(c Charge) int64 {
	if d == Cores {
		return c.Cores
	}
	return c.MemoryMiB
}

// unit is what amounts of the dimension are counted in.
func (d Dimension) unit() string {
	if d == Cores {
		return "% cores"
	}
	return " MiB"
}

// Limit is one line of a ResourceQuota, in MiB or percent.
type Limit struct {
	Resource  string // the quota's key, for messages
	Family    string // type word
	Dimension Dimension
	Max       int64 // 0 blocks
	// Unreadable, when set, says why the quota's line cannot be read; Max is then 0, so that it blocks.
	Unreadable string
}

// Quota is one ResourceQuota. Every quota of a namespace must hold.
type Quota struct {
	Namespace, Name string
	// Selects reports whether pods of a scope count; nil means all do. It must be a pure function.
	Selects func(Scope) bool
	Limits  []Limit
}

// Counts reports whether pods of a scope count against the quota.
func (q *Quota) Counts(s Scope) bool { return q.Selects == nil || q.Selects(s) }

// same reports whether two quotas are known to have the same limits. Functions cannot be compared, so quotas with
// Selects never are.
func (q *Quota) same(o *Quota) bool {
	return q.Selects == nil && o.Selects == nil && slices.Equal(q.Limits, o.Limits)
}

// check returns a *QuotaError unless every quota has room for a pod of the scope that asks for asked(family).
func (n *Namespace) check(s Scope, asked func(family string) Charge) error {
	var worst, unproven *QuotaError
	for i := range n.Quotas {
		q := &n.Quotas[i]
		if !q.Counts(s) {
			continue
		}
		unreadable := slices.IndexFunc(n.Unreadable, func(e *Entry) bool { return q.Counts(e.Scope) })
		for _, l := range q.Limits {
			ask := l.Dimension.of(asked(l.Family))
			if ask == 0 {
				continue // as in the API server, a quota holds only what a pod asks for
			}
			used := n.used(q, l)
			e := &QuotaError{Namespace: n.Name, Quota: q.Name, Limit: l, Used: used, Asked: ask}
			switch {
			case ask > l.Max-used:
				if worst == nil || l.Max-used < worst.Limit.Max-worst.Used {
					worst = e
				}
			case unreadable >= 0 && unproven == nil:
				u := n.Unreadable[unreadable]
				e.Unreadable = fmt.Sprintf("%v: %s", &u.Pod, u.Problem)
				unproven = e
			}
		}
	}
	if worst = cmp.Or(worst, unproven); worst != nil {
		return worst
	}
	return nil
}

// QuotaError is a quota that a pod would exceed; of several the one with the least room.
type QuotaError struct {
	Namespace, Quota string
	Limit            Limit
	Used, Asked      int64 // MiB or percent, by Limit.Dimension
	// Unreadable, when set, names a pod that counts against the quota and whose charge cannot be read. The numbers fit,
	// but they may be incomplete. Admission may admit the new pod then; Assume refuses it.
	Unreadable string
}

func (e *QuotaError) Error() string {
	unit := e.Limit.Dimension.unit()
	if e.Unreadable != "" {
		return fmt.Sprintf("namespace %s, quota %s, %s: what %s cannot be counted, so nothing that is limited can be added: repair or delete that pod",
			e.Namespace, e.Quota, e.Limit.Resource, e.Unreadable)
	}
	if e.Limit.Unreadable != "" {
		return fmt.Sprintf("namespace %s, quota %s, %s cannot be read, so it allows nothing until the quota is mended: %s",
			e.Namespace, e.Quota, e.Limit.Resource, e.Limit.Unreadable)
	}
	return fmt.Sprintf("namespace %s, quota %s, %s: asked %d%s, used %d%s of %d%s: ask for less, wait until pods there release it, or raise the quota",
		e.Namespace, e.Quota, e.Limit.Resource, e.Asked, unit, e.Used, unit, e.Limit.Max, unit)
}

// frees reports whether pods may fit when the quota becomes after; nil is no quota.
func (q *Quota) frees(after *Quota) bool {
	switch {
	case q == nil:
		return false
	case after == nil || q.Selects != nil || after.Selects != nil:
		return true
	}
	for _, l := range q.Limits {
		if !slices.ContainsFunc(after.Limits, func(o Limit) bool {
			return o.Family == l.Family && o.Dimension == l.Dimension && o.Max <= l.Max
		}) {
			return true
		}
	}
	return false
}
