package nominated

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Claims are the pods that come before one pod, by the nodes to which they were nominated. The zero Claims are none.
type Claims struct {
	pods   map[string][]*podrequest.Request // the first first; also some who do not come before the pod
	pod    *podrequest.Request              // nil for nobody, before whom all of them come
	ending []string                         // UIDs of pods that are being deleted
}

// Before returns those of the claims that come before a pod, of which all must be here who are of its priority or a
// higher one. Of two pods of the same priority that are nominated to one node, only one comes before the other, or both
// would wait for ever. It shares what it can: there may be thousands nominated, and each is asked about.
func (c Claims) Before(p *podrequest.Request) Claims {
	c.pod = p
	return c
}

// On returns those who were nominated to a node, the first first.
func (c Claims) On(node string) []*podrequest.Request {
	all, p := c.pods[node], c.pod
	if p == nil {
		return all
	}
	itself := func(q *podrequest.Request) bool { return q.UID == p.UID }
	own := p.Nominated == node || p.Nominated == "" && slices.ContainsFunc(all, itself) // since the pod was read
	behind := func(q *podrequest.Request) bool {
		return itself(q) || own && q.Priority == p.Priority && p.UID < q.UID
	}
	if !slices.ContainsFunc(all, behind) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), behind)
}

// Without returns the claims as they would be if pods of these UIDs were gone.
func (c Claims) Without(uids ...string) Claims {
	rest := make(map[string][]*podrequest.Request, len(c.pods))
	for node, pods := range c.pods {
		rest[node] = slices.DeleteFunc(slices.Clone(pods), func(p *podrequest.Request) bool { return slices.Contains(uids, p.UID) })
	}
	c.pods = rest
	return c
}

// View returns a node as it is for the pod with what those before it are going to hold there.
func (c Claims) View(s *placement.Scratch, v *ledger.View) *ledger.View {
	return v.With(c.Of(s, v)...)
}

// Of returns what those before the pod are going to hold of a node, on which they fit one beside the other once who
// is ending has ended. Who then does not fit keeps nothing: its nomination is void.
func (c Claims) Of(s *placement.Scratch, v *ledger.View) []*ledger.Entry {
	if v == nil || len(c.pods[v.Name]) == 0 {
		return nil
	}
	rest := v.Without(c.ending...)
	var entries []*ledger.Entry
	for _, q := range c.On(v.Name) {
		if _, refusal := nodefit.Fit(s, q, rest.With(entries...), "", nil); refusal.Refused() {
			continue
		}
		if peak, err := q.Placement.Classes.Reserved(s.Allocation(), 0); err == nil {
			e := &ledger.Entry{Pod: q.Ledger, Reserved: peak}
			e.Node = v.Name
			entries = append(entries, e)
		}
	}
	return entries
}
