package placement

import "math"

// alone returns the worst reason why a container does not fit even without the pod's others, or Fits.
func (s *Scratch) alone() Reason {
	worst := Fits
	for i := range s.containers {
		if r := s.lacks(&s.containers[i]); r != Fits && (worst == Fits || r < worst) {
			worst = r
		}
	}
	return worst
}

// lacks returns why too few devices take a container beside those that are placed: the first reason that leaves fewer
// than it asks for, or Fits.
func (s *Scratch) lacks(c *container) Reason {
	n := c.request.Devices
	var refused [reasons]int // devices of the family by refusal
	family := 0
	for d := range s.rooms {
		if r := s.refusal(c, d); r != NoDevices {
			refused[r]++
			family++
		}
	}
	switch {
	case family == 0:
		return NoDevices
	case family < n:
		return TooFewDevices
	}
	for r, left := Mismatch, family; r < reasons; r++ {
		if left -= refused[r]; left < n {
			return r
		}
		if r >= NotOnOneNUMANode && s.pod.NUMABind && n > 1 && s.mostOnOneNUMANode(c, r) < n {
			return r
		}
	}
	return Fits
}

// mostOnOneNUMANode counts the devices that no reason up to r refuses, on the NUMA node with most.
func (s *Scratch) mostOnOneNUMANode(c *container, r Reason) int {
	most := 0
	for d := range s.rooms {
		n := 0
		for e := range s.rooms {
			if s.node.Devices[e].NUMA != s.node.Devices[d].NUMA {
				continue
			}
			if refusal := s.refusal(c, e); refusal == Fits || refusal > r {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// refusal returns the first reason why device d does not take a container beside those that are placed, or Fits. It is
// NoDevices for a device of another family.
func (s *Scratch) refusal(c *container, d int) Reason {
	dev := &s.node.Devices[d]
	ask := c.request.On(dev.Capacity.MemoryMiB)
	switch {
	case dev.Family != c.request.Family:
		return NoDevices
	case s.rooms[d].refusal != Fits:
		return s.rooms[d].refusal
	case c.chain >= 0 && s.chains[c.chain].excludes(dev):
		return NotAligned
	case !ask.Within(dev.Capacity):
		return CapacityTooSmall
	}
	return s.beside(c, d, ask)
}

// failure explains why the pod does not fit; r is the reason of alone. It is CapacityTooSmall when the pod would not
// fit an empty node, r when a container does not fit alone, else the dimension that would have to be larger.
func (s *Scratch) failure(r Reason) Reason {
	const plenty = math.MaxInt64 / 2
	switch {
	case r.Unresolvable():
		return r
	case !s.wouldEmpty(s.any):
		return CapacityTooSmall
	case r != Fits:
		return r
	case s.would(func(r *room) { r.free.MemoryMiB = plenty }):
		return NoMemory
	case s.would(func(r *room) { r.free.Slots = plenty }):
		return NoSlots
	case s.would(func(r *room) { r.free.Cores, r.limited = plenty, false }):
		return NoCores
	case s.would(func(r *room) { r.free.Cores, r.limited, r.held, r.exclusive = plenty, false, false, false }):
		return Exclusive
	}
	return Fragmented
}

// any looks for any placement. complete tells that a failure is proof.
func (s *Scratch) any() (found, complete bool) {
	if s.greedy() {
		return true, true
	}
	return s.find()
}

// wouldEmpty reports whether look finds a placement when no other pod holds anything; in doubt true. It leaves the
// rooms empty: restoring them would cost time, and most callers return at once.
func (s *Scratch) wouldEmpty(look func() (found, complete bool)) bool {
	for d := range s.rooms {
		r, dev := &s.rooms[d], &s.node.Devices[d]
		r.free, r.limited = dev.Capacity, dev.Capacity.Cores > 0
		r.held, r.exclusive = false, false
	}
	found, complete := look()
	return found || !complete
}

// would reports whether the pod could fit if every device were changed like this; in doubt true.
func (s *Scratch) would(change func(r *room)) bool {
	for d := range s.rooms {
		s.offer(d)
		change(&s.rooms[d])
	}
	s.clear()
	found, complete := s.any()
	return found || !complete
}
