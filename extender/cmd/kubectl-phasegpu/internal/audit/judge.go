package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// judge says which lines drift of those that something open is about. The page was taken after the one state
// and before the other: what is the same in both was so when it was taken.
func judge(before, after *look, o *open) Books {
	l := after.page
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
		drifts := len(d.other) > 0 && l.Consistent && before.want.sameFacts(k, after.want)
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

// sameFacts reports whether two books know the same of what a line is about, apart from its pods.
func (b *books) sameFacts(k key, o *books) bool {
	switch k.kind {
	case nodeKind:
		return b.nodes[k.of] == o.nodes[k.of]
	case deviceKind:
		x, y := b.devices[place{k.of, k.at}], o.devices[place{k.of, k.at}]
		return x.listed == y.listed && x.facts == y.facts
	case quotaKind:
		at := limit{k.of, k.at, k.which}
		return b.quotas[at].Limit == o.quotas[at].Limit
	default:
		return true
	}
}

// line reports a difference; the look after it tells what was about to change.
func (v *look) line(k key, d *difference, after *look) Line {
	l := Line{Kind: string(k.kind), Differs: d.other}
	of := func(*podLine) (device.Amount, bool) { return device.Amount{}, false }
	switch k.kind {
	case nodeKind:
		l.Node = k.of
	case deviceKind:
		at := place{k.of, k.at}
		l.Node, l.Device, l.Books = k.of, k.at, shown(v.got.devices[at].held.Amount)
		of = func(p *podLine) (device.Amount, bool) { return p.held[at].Amount, true }
	case namespaceKind:
		to := account{k.of, k.at}
		l.Namespace, l.Family, l.Books = k.of, k.at, shown(v.got.namespaces[to])
		of = func(p *podLine) (device.Amount, bool) { return p.charged[to], true }
	case quotaKind:
		at := limit{k.of, k.at, k.which}
		l.Namespace, l.Quota, l.Resource = k.of, k.at, k.which
		to := account{k.of, v.want.quotas[at].Family}
		of = func(p *podLine) (device.Amount, bool) { return p.charged[to], true }
		if more := v.usedMore(at, d.pods); more != 0 {
			used := v.got.quotas[at].used
			l.Differs = append(slices.Clone(l.Differs),
				fmt.Sprintf("%d used in the books, %d by its pods", used, used-more))
		}
	}
	more := d.rest // in the books than there must be
	for _, uid := range d.pods {
		w, g := v.want.pods[uid], v.got.pods[uid]
		c := Cause{
			UID: uid, Namespace: cmp.Or(w.namespace, g.namespace), Name: cmp.Or(w.name, g.name),
			Why: v.why(uid), Unsettled: v.unsettled(uid, after),
		}
		if books, ok := of(&g); ok {
			must, _ := of(&w)
			c.Books, c.Recomputed = shown(books), shown(must)
			more = plus(more, minus(books, must))
		}
		l.Pods = append(l.Pods, c)
	}
	if l.Books != nil {
		l.Recomputed = shown(minus(device.Amount(*l.Books), more))
	}
	slices.SortFunc(l.Pods, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return l
}

// usedMore is how much more the books count against a limit than pods account for.
func (v *look) usedMore(at limit, pods []string) int64 {
	more := int64(0)
	v.state.eachLimit(at.namespace, func(which limit, q *ledger.Quota, l ledger.Limit) {
		if which != at {
			return
		}
		to := account{at.namespace, l.Family}
		for _, uid := range pods {
			got, want := v.got.pods[uid].charged[to], v.want.pods[uid].charged[to]
			more += v.state.counts(uid, q, l, got) - v.state.counts(uid, q, l, want)
		}
	})
	return more
}

// unsettled says why what the books say of a pod may have been right when they said it, "" when it was not.
func (v *look) unsettled(uid string, after *look) string {
	switch now, then := v.state.pods[uid], after.state.pods[uid]; {
	case now.UID != then.UID || now.Version != then.Version:
		return "it changed while the books were read"
	case now.Node != "" && now.Version > v.page.Seen:
		return fmt.Sprintf("it is of version %d, and the books have seen pods up to %d", now.Version, v.page.Seen)
	default:
		return ""
	}
}

// why says in what books and API server differ about a pod.
func (v *look) why(uid string) string {
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
	devices, namespaces := map[place]bool{}, map[string]bool{}
	for _, b := range []*books{want, got} {
		for at, d := range b.devices {
			if d.listed || !d.held.IsZero() {
				devices[at] = true
			}
		}
		for to, sum := range b.namespaces {
			if !sum.IsZero() {
				namespaces[to.namespace] = true
			}
		}
		for at := range b.quotas {
			namespaces[at.namespace] = true
		}
	}
	return Counts{
		Nodes: len(union(want.nodes, got.nodes)), Devices: len(devices), Pods: len(union(want.pods, got.pods)),
		Namespaces: len(namespaces), Quotas: len(union(want.quotas, got.quotas)),
	}
}

func shown(a device.Amount) *report.Amount {
	shown := report.Amount(a)
	return &shown
}
