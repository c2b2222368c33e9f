package placement

import "github.com/phasegpu/phasegpu/core/device"

// Check returns Fits when an allocation that was decided before fits a node in the phases from index from on, else the
// first reason against it. It applies all of Fit's rules, health, cordon and selectors included, so it is for pods that
// are not bound yet. n.Held is without this pod.
func Check(n Node, p *Pod, a device.Allocation, from int) Reason {
	var s Scratch
	return s.Check(n, p, a, from)
}

// Check is placement.Check without allocating.
func (s *Scratch) Check(n Node, p *Pod, a device.Allocation, from int) Reason {
	if !p.counts(a) {
		return Mismatch
	}
	s.load(n, p, from)
	for i := range s.containers {
		c := &s.containers[i]
		for _, share := range a[c.position] {
			if r := s.checkShare(c, share); r != Fits {
				return r
			}
		}
		if p.NUMABind && !s.onOneNUMANode(c) {
			return NotOnOneNUMANode
		}
	}
	if !s.chainsOnOneNUMANode() {
		return NotAligned
	}
	return Fits
}

// counts reports whether an allocation gives every container as many devices as it asks for.
func (p *Pod) counts(a device.Allocation) bool {
	for i := range max(len(a), len(p.Classes)) {
		asked, recorded := 0, 0
		if i < len(p.Classes) && i < len(p.Requests) {
			asked = max(0, p.Requests[i].Devices)
		}
		if i < len(a) {
			recorded = len(a[i])
		}
		if asked != recorded {
			return false
		}
	}
	return true
}

// checkShare places one share, or returns the reason against it.
func (s *Scratch) checkShare(c *container, share device.Share) Reason {
	d := s.node.find(share.UUID)
	if d < 0 {
		return UnknownDevice
	}
	switch r := s.refusal(c, d); {
	case r == NoDevices:
		return OtherFamily
	case share.Family != c.request.Family, c.has(d), share.Amount != c.request.On(s.node.Devices[d].Capacity.MemoryMiB):
		return Mismatch
	case r != Fits:
		return r
	}
	s.take(c, d, share.Amount)
	return Fits
}

// has reports whether a container has been placed on device d.
func (c *container) has(d int) bool {
	for _, chosen := range c.chosen {
		if chosen.device == d {
			return true
		}
	}
	return false
}

// onOneNUMANode reports whether a container's devices lie on one NUMA node.
func (s *Scratch) onOneNUMANode(c *container) bool {
	for _, chosen := range c.chosen {
		if s.node.Devices[chosen.device].NUMA != s.node.Devices[c.chosen[0].device].NUMA {
			return false
		}
	}
	return true
}
