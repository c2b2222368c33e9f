package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// judge sorts the lines that are open into drift and unsettled ones. The books were read after the one state and
// before the other: what is the same in both was so when they were read.
func judge(before, after *comparison, o *open) Books {
	l := after.served
	b := Books{
		Generation: l.Generation, Seen: l.Seen, Release: l.Release, Compared: counts(after.want, after.got),
		Drift: []Line{}, Unsettled: []Line{}, Assumed: append([]Assumed{}, after.assumed...),
	}
	for _, k := range sorted(before.differs.lines) {
		d := *before.differs.lines[k]
		d.pods = slices.DeleteFunc(slices.Clone(d.pods), func(uid string) bool { return !o.pods[uid] })
		if !o.lines[k] {
			d.other, d.rest = nil, device.Amount{}
		}
		if len(d.pods)+len(d.other) == 0 {
			continue
		}
		line := before.line(k, &d, after)
		drifts := len(d.other) > 0 && l.Consistent && before.want.lines[k].facts == after.want.lines[k].facts
		for i := range line.Pods {
			drifts = drifts || line.Pods[i].Unsettled == ""
		}
		if drifts {
			b.Drift = append(b.Drift, line)
		} else {
			b.Unsettled = append(b.Unsettled, line)
		}
	}
	return b
}

// line reports a difference; the comparison after it shows what was about to change.
func (v *comparison) line(k key, d *difference, after *comparison) Line {
	l := Line{Kind: string(k.kind), Differs: d.other}
	got := v.got.lines[k]
	amounts := k // the line whose amounts of pods are shown
	switch k.kind {
	case nodeKind:
		l.Node = k.of
	case deviceKind:
		l.Node, l.Device, l.Books = k.of, k.at, shown(got.Amount)
	case namespaceKind:
		l.Namespace, l.Family, l.Books = k.of, k.at, shown(got.Amount)
	case quotaKind:
		l.Namespace, l.Quota, l.Resource = k.of, k.at, k.which
		amounts = key{namespaceKind, k.of, v.want.lines[k].limit.Family, ""}
		more := int64(0) // in the books than pods account for
		for _, uid := range d.pods {
			more += v.got.pods[uid].parts[k].used - v.want.pods[uid].parts[k].used
		}
		if more != 0 {
			used := fmt.Sprintf("%d used in the books, %d by its pods", got.used, got.used-more)
			l.Differs = append(slices.Clone(l.Differs), used)
		}
	}
	more := d.rest // in the books than there must be
	for _, uid := range d.pods {
		w, g := v.want.pods[uid], v.got.pods[uid]
		c := Cause{
			UID: uid, Namespace: cmp.Or(w.namespace, g.namespace), Name: cmp.Or(w.name, g.name),
			Why: v.why(uid), Unsettled: v.unsettled(uid, after),
		}
		if k.kind != nodeKind {
			books, must := g.parts[amounts].Amount, w.parts[amounts].Amount
			c.Books, c.Recomputed = shown(books), shown(must)
			more = plus(more, minus(books, must))
		}
		l.Pods = append(l.Pods, c)
	}
	if l.Books != nil {
		l.Recomputed = shown(minus(got.Amount, more))
	}
	slices.SortFunc(l.Pods, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return l
}

// unsettled says why what the books say of a pod may have been right when they said it, "" when it was not.
func (v *comparison) unsettled(uid string, after *comparison) string {
	switch now, then := v.state.pods[uid], after.state.pods[uid]; {
	case now.UID != then.UID || now.Version != then.Version:
		return "it changed while the books were read"
	case now.Node != "" && now.Version > v.served.Seen:
		return fmt.Sprintf("it is of version %d, and the books have seen pods up to %d", now.Version, v.served.Seen)
	default:
		return ""
	}
}

// why says in what books and API server differ about a pod.
func (v *comparison) why(uid string) string {
	g, inBooks := v.got.pods[uid]
	p, there := v.state.pods[uid]
	w := v.want.pods[uid]
	switch {
	case !there && g.assumed:
		return "assumed, and the API server has no such pod"
	case !there:
		return "the API server has no such pod"
	case p.First == phase.None:
		return "it has ended"
	case p.Node == "":
		return "the API server has it without a node"
	case !inBooks:
		return "the books do not have it"
	case g.node != p.Node:
		return fmt.Sprintf("on node %s in the books, on %s at the API server", g.node, p.Node)
	case w.problem && !g.problem:
		return "its record cannot be read"
	case g.problem && !w.problem:
		return "its record can be read, the books could not"
	case g.from != p.First:
		return fmt.Sprintf("charged from phase %s on, its status says %s", p.phase(g.from), p.phase(p.First))
	default:
		return "its record says otherwise"
	}
}

func (p *pod) phase(k int) string {
	if k < 0 || k >= len(p.phases) {
		return fmt.Sprint(k)
	}
	return p.phases[k]
}

// counts says how much was compared.
func counts(want, got *books) Counts {
	c := Counts{Pods: len(union(want.pods, got.pods))}
	namespaces := map[string]bool{}
	for k := range union(want.lines, got.lines) {
		w, g := want.lines[k], got.lines[k]
		says := w.known || g.known || !w.IsZero() || !g.IsZero()
		switch k.kind {
		case nodeKind:
			c.Nodes++
		case deviceKind:
			if says {
				c.Devices++
			}
		case namespaceKind:
			if says {
				namespaces[k.of] = true
			}
		case quotaKind:
			c.Quotas++
			namespaces[k.of] = true
		}
	}
	c.Namespaces = len(namespaces)
	return c
}

func shown(a device.Amount) *report.Amount {
	shown := report.Amount(a)
	return &shown
}
