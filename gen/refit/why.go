package refit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
)

// maxTold bounds the devices of which a message gives numbers.
const maxTold = 4

// why says in one line why a container cannot move: placement's sentence and, for the allowed devices on
// the node, what others hold and what the pod could use there at most.
func why(v *ledger.View, p *placement.Pod, a device.Allocation, first int, r *Request, reason placement.Reason) string {
	var text strings.Builder
	fmt.Fprintf(&text, "container %s of pod %s/%s cannot leave %s for the allowed devices of node %s: %v",
		r.Container.Name, r.Pod.Namespace, r.Pod.Name, uuids(a[r.Container.Position]), r.Node, reason)
	told := 0
	for i := range v.Devices {
		d := &v.Devices[i]
		if !slices.Contains(r.Allowed, d.UUID) || told == maxTold {
			continue
		}
		told++
		fmt.Fprintf(&text, "; %s has %v, others hold %v", d.UUID, d.Capacity, v.Held[i].Amount)
		if there, ok := peak(p, a, first, r, d.UUID); ok {
			fmt.Fprintf(&text, ", with the container there this pod would hold %v at its peak", there)
		}
	}
	return text.String()
}

// peak returns what the remaining phases could use of an allowed device if the first of the container's
// shares that must move went there; ok is false when the container has it already.
func peak(p *placement.Pod, a device.Allocation, first int, r *Request, uuid string) (most device.Amount, ok bool) {
	moved := slices.Clone(a)
	shares := slices.Clone(a[r.Container.Position])
	moved[r.Container.Position] = shares
	leaving := slices.IndexFunc(shares, func(s device.Share) bool { return !slices.Contains(r.Allowed, s.UUID) })
	if leaving < 0 || slices.ContainsFunc(shares, func(s device.Share) bool { return s.UUID == uuid }) {
		return most, false
	}
	shares[leaving].UUID = uuid
	reserved, err := p.Classes.Reserved(moved, first)
	for _, h := range reserved.Devices {
		if h.UUID == uuid {
			most = h.Amount
		}
	}
	return most, err == nil
}

func uuids(shares []device.Share) string {
	names := make([]string, len(shares))
	for i, s := range shares {
		names[i] = s.UUID
	}
	return strings.Join(names, ",")
}
