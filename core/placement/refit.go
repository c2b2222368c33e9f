package placement

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
)

// Refit moves the container at one position to allowed devices, for the phases from index from on. n.Held is without
// this pod. The pod's other containers stay where they are.
//
// Count and amounts stay as recorded, so the namespace's charge does not change: only the device of a share differs.
// Shares on allowed devices stay. The others move to devices that take them by Fit's rules: first those where the pod's
// peak rises least, then by the policy, then the lowest index. A share does not move to a device of which the request
// would need more than is recorded (NeedsMore). With NUMABind all shares end on one NUMA node, the one where most stay.
//
// It returns the container's new shares, or the recorded ones and the reason. It changes nothing.
func Refit(n Node, p *Pod, a device.Allocation, from, position int, allowed func(uuid string) bool) ([]device.Share,
	Reason) {
	if !p.counts(a) || position < 0 || position >= len(a) || len(a[position]) == 0 {
		return nil, Mismatch
	}
	recorded := a[position]
	for _, shares := range a {
		for _, share := range shares {
			if !plausible(share.Amount) {
				return recorded, Mismatch
			}
		}
	}
	if !slices.ContainsFunc(recorded, func(s device.Share) bool { return !allowed(s.UUID) }) {
		return recorded, Fits
	}

	var s Scratch
	s.load(n, p, from)
	s.record(a, position)
	i := slices.IndexFunc(s.containers, func(c container) bool { return c.position == position })
	if i < 0 {
		return recorded, PhaseOver
	}
	m := move{s: &s, c: &s.containers[i], recorded: recorded}
	offered := make([]bool, len(n.Devices))
	for d := range n.Devices {
		offered[d] = allowed(n.Devices[d].UUID)
	}
	shares, _, r := m.within(offered)
	if !p.NUMABind || len(recorded) < 2 || r != Fits {
		return shares, r
	}
	return m.onOneNUMANode(offered)
}

// plausible reports whether an amount is within what any share can be, so that no sum can overflow.
func plausible(a device.Amount) bool {
	return a.Slots == 1 && a.MemoryMiB >= 0 && a.MemoryMiB <= device.MaxMemoryMiB && a.Cores >= 0 && a.Cores <= device.WholeCores
}

// move is one container that looks for new devices, everything else being placed in s.
type move struct {
	s        *Scratch
	c        *container
	recorded []device.Share
}

// within moves the shares that are not on offered devices to those. The second result is what it
// costs, see cost.
func (m *move) within(offered []bool) ([]device.Share, cost, Reason) {
	var leaving []int // shares that must move
	stays := make([]bool, len(offered))
	for i, share := range m.recorded {
		if d := m.s.node.find(share.UUID); d >= 0 && offered[d] && !stays[d] {
			stays[d] = true
		} else {
			leaving = append(leaving, i)
		}
	}
	if r := m.lacks(leaving, offered, stays); r != Fits {
		return m.recorded, cost{}, r
	}
	goes := m.match(leaving, offered, stays)
	if goes == nil {
		return m.recorded, cost{}, Fragmented
	}
	shares := slices.Clone(m.recorded)
	total := cost{moved: len(leaving)}
	for d, i := range goes {
		if i < 0 {
			continue
		}
		shares[i].UUID = m.s.node.Devices[d].UUID
		total.rise = total.rise.Plus(m.s.rise(m.c, d, shares[i].Amount))
	}
	return shares, total, Fits
}

// cost orders ways to move: fewer shares moved, then the lesser rise of the pod's peak.
type cost struct {
	moved int
	rise  device.Amount
}

func (a cost) less(b cost) bool {
	return a.moved < b.moved || a.moved == b.moved && less(a.rise, b.rise)
}

// match assigns each leaving share a device of its own. It returns the share by device, -1 for none, or nil when that
// is impossible. Shares of equal amounts get the best devices. Shares of unlike cards may compete for devices, which
// augmenting paths resolve exactly.
func (m *move) match(leaving []int, offered, stays []bool) []int {
	goes := make([]int, len(offered))
	for d := range goes {
		goes[d] = -1
	}
	var seen []bool
	var seat func(i int) bool
	seat = func(i int) bool {
		targets := m.targets(i, offered, stays)
		for _, k := range targets {
			if goes[k.device] < 0 {
				goes[k.device] = i
				return true
			}
		}
		for _, k := range targets {
			if !seen[k.device] {
				seen[k.device] = true
				if seat(goes[k.device]) {
					goes[k.device] = i
					return true
				}
			}
		}
		return false
	}
	for _, i := range leaving {
		seen = make([]bool, len(offered))
		if !seat(i) {
			return nil
		}
	}
	return goes
}

// targets returns the devices that take a share, best first.
func (m *move) targets(i int, offered, stays []bool) []candidate {
	ask := m.recorded[i].Amount
	var ranks []candidate
	for d := range offered {
		if offered[d] && !stays[d] && m.refusal(i, d) == Fits {
			ranks = append(ranks, candidate{device: d, rise: m.s.rise(m.c, d, ask), fullness: m.s.rooms[d].fullness})
		}
	}
	m.s.sort(ranks, len(ranks))
	return ranks
}

// refusal returns why device d does not take a recorded share, or Fits.
func (m *move) refusal(i, d int) Reason {
	dev, ask := &m.s.node.Devices[d], m.recorded[i].Amount
	switch {
	case dev.Family != m.recorded[i].Family:
		return OtherFamily
	case m.s.rooms[d].refusal != Fits:
		return m.s.rooms[d].refusal
	case m.c.request.On(dev.Capacity.MemoryMiB).MemoryMiB > ask.MemoryMiB:
		return NeedsMore
	case !ask.Within(dev.Capacity):
		return CapacityTooSmall
	}
	return m.s.beside(m.c, d, ask)
}

// lacks returns the first reason that leaves fewer devices than there are leaving shares, or Fits. Of the reasons for
// which a device refuses the shares the last one counts.
func (m *move) lacks(leaving []int, offered, stays []bool) Reason {
	var refused [reasons]int
	left := 0
	for d := range offered {
		if !offered[d] || stays[d] {
			continue
		}
		best := Mismatch
		for _, i := range leaving {
			r := m.refusal(i, d)
			if best = max(best, r); r == Fits {
				best = Fits
				break
			}
		}
		refused[best]++
		left++
	}
	switch {
	case left == 0 && !slices.Contains(stays, true):
		return UnknownDevice
	case left < len(leaving):
		return TooFewDevices
	}
	for r := Mismatch; r < reasons; r++ {
		if left -= refused[r]; left < len(leaving) {
			return r
		}
	}
	return Fits
}

// onOneNUMANode is within the NUMA node on which it costs least.
func (m *move) onOneNUMANode(offered []bool) ([]device.Share, Reason) {
	shares, least, reason := m.recorded, cost{}, NotOnOneNUMANode
	for d := range offered {
		node := m.s.node.Devices[d].NUMA
		there := slices.Clone(offered)
		for e := range there {
			there[e] = offered[e] && m.s.node.Devices[e].NUMA == node
		}
		found, c, r := m.within(there)
		if r == Fits && (reason != Fits || c.less(least)) {
			shares, least, reason = found, c, Fits
		}
	}
	return shares, reason
}
