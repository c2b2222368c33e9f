package nominated

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Ahead are the nominated pods that come before one pod: for them, devices are kept from it. The zero Ahead has none.
type Ahead struct {
	pods   map[string][]*podrequest.Request // by node, highest priority first; may include lower-ranked pods
	pod    *podrequest.Request              // nil: all of the pods are ahead
	ending []string                         // UIDs of pods that are being deleted
}

// Of returns the pods ahead of a pod; a must have all that are nominated with its priority or a higher one. Of two pods
// of the same priority that are nominated to one node only one is ahead of the other, or both would wait for ever. The
// pods are shared and not copied: there may be thousands, and each is asked about.
func (a Ahead) Of(r *podrequest.Request) Ahead {
	a.pod = r
	return a
}

// On returns the pods that are nominated to a node, highest priority first.
func (a Ahead) On(node string) []*podrequest.Request {
	all, pod := a.pods[node], a.pod
	if pod == nil {
		return all
	}
	itself := func(q *podrequest.Request) bool { return q.UID == pod.UID }
	// It may have been nominated since it was parsed.
	nominated := pod.Nominated == node || pod.Nominated == "" && slices.ContainsFunc(all, itself)
	behind := func(q *podrequest.Request) bool {
		return itself(q) || nominated && q.Priority == pod.Priority && pod.UID < q.UID
	}
	if !slices.ContainsFunc(all, behind) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), behind)
}

// Without returns the pods ahead as they would be if pods of these UIDs were gone.
func (a Ahead) Without(uids ...string) Ahead {
	gone := func(r *podrequest.Request) bool { return slices.Contains(uids, r.UID) }
	rest := make(map[string][]*podrequest.Request, len(a.pods))
	for node, pods := range a.pods {
		rest[node] = slices.DeleteFunc(slices.Clone(pods), gone)
	}
	a.pods = rest
	return a
}

// View returns a node with what the pods ahead will reserve there.
func (a Ahead) View(s *placement.Scratch, v *ledger.View) *ledger.View {
	return v.With(a.Entries(s, v)...)
}

// Entries returns what the pods ahead will reserve on a node, where they fit beside each other once the pods that are
// being deleted have ended. One that does not fit then reserves nothing: its nomination is void.
func (a Ahead) Entries(s *placement.Scratch, v *ledger.View) []*ledger.Entry {
	if v == nil || len(a.pods[v.Name]) == 0 {
		return nil
	}
	rest := v.Without(a.ending...)
	var entries []*ledger.Entry
	for _, r := range a.On(v.Name) {
		if _, refusal := nodefit.Fit(s, r, rest.With(entries...), "", nil); refusal.Refused() {
			continue
		}
		if peak, err := r.Placement.Classes.Reserved(s.Allocation(), 0); err == nil {
			e := &ledger.Entry{Pod: r.Ledger, Reserved: peak}
			e.Node = v.Name
			entries = append(entries, e)
		}
	}
	return entries
}
