package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/page"
)

// judge says of the lines that are open which of them drift. The page was taken after the one state and before
// the other: what is the same in both was so when it was taken.
func judge(before, after *look, open map[key]*difference) Books {
	l := after.page
	b := Books{
		Generation: l.Generation, Seen: l.Seen, Release: l.Release, Compared: counts(after.want, after.got),
		Drift: []Line{}, Unsettled: []Line{}, Assumed: append([]Assumed{}, after.assumed...),
	}
	for _, k := range sorted(open) {
		d := before.differs[k]
		line := before.line(k, d, after)
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
		return x.listed == y.listed && x.facts == y.facts && x.exclusive == y.exclusive
	case quotaKind:
		at := limit{k.of, k.at, k.which}
		return b.quotas[at].max == o.quotas[at].max
	default:
		return true
	}
}

// line reports a difference; the look after it tells what was about to change.
func (v *look) line(k key, d *difference, after *look) Line {
	l := Line{Kind: string(k.kind), Differs: d.other}
	amounts := func(p *podLine) *page.Amount { return nil }
	switch k.kind {
	case nodeKind:
		l.Node = k.of
	case deviceKind:
		at := place{k.of, k.at}
		l.Node, l.Device = k.of, k.at
		l.Books, l.Recomputed = shown(v.got.devices[at].reserved), shown(v.want.devices[at].reserved)
		amounts = func(p *podLine) *page.Amount { return shown(p.held[at]) }
	case namespaceKind:
		to := account{k.of, k.at}
		l.Namespace, l.Family = k.of, k.at
		l.Books, l.Recomputed = shown(v.got.namespaces[to]), shown(v.want.namespaces[to])
		amounts = func(p *podLine) *page.Amount { return shown(p.charged[to]) }
	case quotaKind:
		at := limit{k.of, k.at, k.which}
		l.Namespace, l.Quota, l.Resource = k.of, k.at, k.which
		if g, w := v.got.quotas[at], v.want.quotas[at]; len(d.pods) > 0 {
			l.Differs = append(slices.Clone(l.Differs), fmt.Sprintf("%d used in the books, %d by its pods", g.used, w.used))
			to := account{k.of, w.family}
			amounts = func(p *podLine) *page.Amount { return shown(p.charged[to]) }
		}
	}
	for _, uid := range d.pods {
		w, g := v.want.pods[uid], v.got.pods[uid]
		c := Cause{UID: uid, Namespace: cmp.Or(w.namespace, g.namespace), Name: cmp.Or(w.name, g.name)}
		c.Books, c.Recomputed = amounts(&g), amounts(&w)
		c.Why, c.Unsettled = v.why(uid), v.unsettled(uid, after)
		l.Pods = append(l.Pods, c)
	}
	slices.SortFunc(l.Pods, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return l
}

// unsettled says why what the books say of a pod may be right all the same, "" when it cannot.
func (v *look) unsettled(uid string, after *look) string {
	now, then := v.want.pods[uid], after.want.pods[uid]
	if !now.same(&then) {
		return "it changed while the books were read"
	}
	if version := v.state.pods[uid].Version; version > v.page.Seen {
		return fmt.Sprintf("it is of version %d, and the books have seen pods up to %d", version, v.page.Seen)
	}
	return ""
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
			if d.listed || !d.reserved.IsZero() {
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

func shown(a device.Amount) *page.Amount {
	shown := page.Amount(a)
	return &shown
}
