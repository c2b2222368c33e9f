package nominate

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/ask"
)

// Claims are the pods that come before one pod, by the nodes to which they were nominated. The zero Claims are none.
type Claims struct {
	pods   map[string][]*ask.Pod
	ending []string // UIDs of pods that are being deleted
}

// View returns a node as it is for the pod with what those before it are going to hold there.
func (c Claims) View(s *placement.Scratch, v *ledger.View) *ledger.View {
	return Beside(v, c.Of(s, v))
}

// Of returns what those before the pod are going to hold of a node, on which they fit one beside the other once who
// is ending has ended. Who then does not fit keeps nothing: its nomination is void.
func (c Claims) Of(s *placement.Scratch, v *ledger.View) []phase.Holding {
	if v == nil || len(c.pods[v.Name]) == 0 {
		return nil
	}
	rest := v.Without(c.ending...)
	var claims []phase.Holding
	for _, q := range c.pods[v.Name] {
		allocation, refusal := q.Place(s, Beside(rest, claims))
		if refusal.Reason != "" {
			continue
		}
		if peak, err := q.Placement.Classes.Reserved(allocation, 0); err == nil {
			claims = append(claims, peak.Devices...)
		}
	}
	return claims
}

// Beside returns a node as it is when claims are held, too.
func Beside(v *ledger.View, claims []phase.Holding) *ledger.View {
	if v == nil || len(claims) == 0 {
		return v
	}
	w := *v
	w.Held = slices.Clone(v.Held)
	for _, h := range claims {
		at := slices.IndexFunc(w.Devices, func(d device.Device) bool { return d.UUID == h.UUID })
		if at < 0 {
			continue // the node lost the device meanwhile
		}
		if sum, err := w.Held[at].Add(h.Amount); err == nil { // as in the ledger, no sum leaves its range
			w.Held[at] = device.Usage{Amount: sum, Exclusive: w.Held[at].Exclusive || h.Exclusive}
		}
	}
	return &w
}
