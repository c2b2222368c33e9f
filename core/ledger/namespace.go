package ledger

import "slices"

// Namespace is what the pods of one namespace are charged. It is immutable: read only.
type Namespace struct {
	Name       string
	Used       []Used   // what is charged, no zeros, in no order
	Quotas     []Quota  // sorted by name
	Unreadable []*Entry // pods that may hold more than they are charged
	pods       int      // entries in the namespace
}

// Used is what a namespace's pods of one scope are charged for one family.
type Used struct {
	Scope  Scope
	Family string // type word
	Charge
}

// QuotaUse is how much of a limit is used.
type QuotaUse struct {
	Quota string
	Limit Limit
	Used  int64 // MiB or percent, by Limit.Dimension; above Limit.Max after reruns or when the limit fell
}

// Usage lists every limit of every quota with what is used of it.
func (n *Namespace) Usage() []QuotaUse {
	var uses []QuotaUse
	for i := range n.Quotas {
		for _, l := range n.Quotas[i].Limits {
			uses = append(uses, QuotaUse{Quota: n.Quotas[i].Name, Limit: l, Used: n.used(&n.Quotas[i], l)})
		}
	}
	return uses
}

// used is what counts against a limit of a quota.
func (n *Namespace) used(q *Quota, l Limit) int64 {
	var sum int64
	for i := range n.Used {
		if u := &n.Used[i]; u.Family == l.Family && q.Counts(u.Scope) {
			sum += l.Dimension.of(u.Charge)
		}
	}
	return sum
}

// scope returns a scope with the strings of an equal one, if there is one.
func (n *Namespace) scope(s Scope) Scope {
	for i := range n.Used {
		if n.Used[i].Scope == s {
			return n.Used[i].Scope
		}
	}
	return s
}

// with returns the namespace with one entry in the place of another; either may be nil. A sum that would leave the
// range of an amount, which only a mistake in this package can cause, is left as it was and an error.
func (n *Namespace) with(before, after *Entry) (*Namespace, error) {
	m := *n
	m.Used = slices.Clone(n.Used)
	var err error
	if before != nil {
		m.pods--
		m.Unreadable = without(m.Unreadable, before)
		for _, t := range before.Reserved.Totals {
			c := m.charge(before.Scope, t.Family)
			if less, e := c.Sub(t.Charge); e != nil {
				err = e
			} else {
				*c = less
			}
		}
	}
	if after != nil {
		m.pods++
		if after.Problem != "" {
			m.Unreadable = append(slices.Clone(m.Unreadable), after)
		}
		for _, t := range after.Reserved.Totals {
			c := m.charge(after.Scope, t.Family)
			if more, e := c.Add(t.Charge); e != nil {
				err = e
			} else {
				*c = more
			}
		}
	}
	m.Used = slices.DeleteFunc(m.Used, func(u Used) bool { return u.IsZero() })
	return &m, err
}

// charge returns the charge of a scope and family, to be changed; n.Used must not be shared.
func (n *Namespace) charge(s Scope, family string) *Charge {
	i := slices.IndexFunc(n.Used, func(u Used) bool { return u.Family == family && u.Scope == s })
	if i < 0 {
		i = len(n.Used)
		n.Used = append(n.Used, Used{Scope: s, Family: family})
	}
	return &n.Used[i].Charge
}

// without returns the entries but one; the slice itself when it is not among them.
func without(entries []*Entry, e *Entry) []*Entry {
	i := slices.Index(entries, e)
	if i < 0 {
		return entries
	}
	return slices.Delete(slices.Clone(entries), i, i+1)
}
