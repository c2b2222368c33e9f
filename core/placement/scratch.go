package placement

import (
	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Scratch is the working memory of a placement. Callers reuse it, so that the next placement allocates nothing. The
// zero Scratch is ready for use. It is not safe for concurrent use.
type Scratch struct {
	node Node
	pod  *Pod

	containers []container     // those with devices and a phase left, in position order
	turns      []int           // phases that matter: those of inits with devices, and the steady state
	rooms      []room          // by device
	uses       []use           // by phase and device: what the pod's own containers hold
	peaks      []device.Amount // by device: the maximum of uses over the phases
	ranks      []candidate     // devices that a container fits on, best first as far as sorted
	search     search
	chains     []chain // of containers that inherit device ids from each other
	numaNodes  []int   // those that a chain may be on, in order

	entries device.Allocation
	shares  []device.Share
}

// container is one of the pod's containers that asks for devices. It is alive from phase first to
// phase last, both indices into Scratch.turns.
type container struct {
	position    int
	init        bool
	chain       int // index into Scratch.chains, -1 for none
	first, last int
	request     *device.Request
	chosen      []choice
}

type choice struct {
	device int
	amount device.Amount
}

// room is what a device offers to the pod.
type room struct {
	refusal   Reason        // whatever the container: selectors, MIG, health, cordon
	free      device.Amount // capacity less what others hold; negative after a rerun without room
	fullness  float64       // mean fullness over the dimensions, with the pod's peak so far
	limited   bool          // the device counts cores
	held      bool          // other pods hold a slot
	exclusive bool          // one of them holds all cores
}

// use is what the pod's containers hold of one device in one phase.
type use struct {
	device.Amount
	exclusive bool // one of them asks for all cores
	unlimited bool // one of them has no limit on cores
}

// Fit is placement.Fit without allocating: the result is valid until the next call.
func (s *Scratch) Fit(n Node, p *Pod) (device.Allocation, Reason) {
	if r := s.place(n, p); r != Fits {
		return nil, r
	}
	return s.Allocation(), Fits
}

// Rate returns the node's Score for the allocation that Fit would return, or the reason why there is none. A scheduler
// rates every node and asks for the allocation on one.
func (s *Scratch) Rate(n Node, p *Pod) (float64, Reason) {
	if r := s.place(n, p); r != Fits {
		return 0, r
	}
	return s.score(), Fits
}

// place chooses devices for all containers.
func (s *Scratch) place(n Node, p *Pod) Reason {
	s.load(n, p, 0)
	if len(s.chains) > 0 {
		return s.placeChains()
	}
	return s.placeAll()
}

// placeAll chooses devices for all containers: greedily, and when that fails by search.
func (s *Scratch) placeAll() Reason {
	if s.greedy() {
		return Fits
	}
	s.clear()
	r := s.alone()
	if r == Fits {
		found, complete := s.find()
		switch {
		case found:
			s.adopt()
			return Fits
		case !complete:
			return Fragmented
		}
	}
	return s.failure(r)
}

// load prepares to place a pod on a node in the phases from index from on.
//
// Only the phases of init containers with devices and the steady state matter: the containers that are alive in any
// other phase are also alive in the steady state.
func (s *Scratch) load(n Node, p *Pod, from int) {
	s.node, s.pod = n, p
	s.containers, s.turns = s.containers[:0], s.turns[:0]
	turn := 0
	for i, class := range p.Classes {
		asks := i < len(p.Requests) && p.Requests[i].Devices > 0
		if class == phase.Init {
			if asks && turn >= from {
				s.addContainer(i, true)
				s.turns = append(s.turns, turn)
			}
			turn++
		} else if asks {
			s.addContainer(i, false)
		}
	}
	if turn < from {
		s.containers = s.containers[:0] // no phase remains
	}
	last := len(s.turns)
	s.turns = append(s.turns, turn)
	for i := range s.containers {
		c := &s.containers[i]
		if c.last = last; c.init {
			c.last = c.first
		}
	}
	if s.chains = s.chains[:0]; p.StrictFamily != "" {
		s.findChains()
	}

	s.rooms = resized(s.rooms, len(n.Devices))
	for d := range n.Devices {
		s.offer(d)
	}
	s.uses = resized(s.uses, len(s.turns)*len(n.Devices))
	s.peaks = resized(s.peaks, len(n.Devices))
	s.clear()
}

// addContainer appends a container whose first phase is the next one (of an app: the last, as all inits
// are declared before), keeping the memory of its choices.
func (s *Scratch) addContainer(position int, init bool) {
	var chosen []choice
	if k := len(s.containers); k < cap(s.containers) {
		chosen = s.containers[:k+1][k].chosen[:0]
	}
	s.containers = append(s.containers, container{
		position: position, init: init, chain: -1, first: len(s.turns), request: &s.pod.Requests[position], chosen: chosen,
	})
}

// clear takes back everything that is placed.
func (s *Scratch) clear() {
	clear(s.uses)
	clear(s.peaks)
	for i := range s.containers {
		s.containers[i].chosen = s.containers[i].chosen[:0]
	}
	for d := range s.rooms {
		s.rooms[d].fullness = s.fullness(d)
	}
}

// offer sets the room of a device. It writes field by field because copying the struct costs a tenth of a Fit.
func (s *Scratch) offer(d int) {
	r, dev, held := &s.rooms[d], &s.node.Devices[d], s.node.held(d)
	r.refusal = s.pod.refuses(dev)
	r.free.Slots = dev.Capacity.Slots - held.Slots
	r.free.MemoryMiB = dev.Capacity.MemoryMiB - held.MemoryMiB
	r.free.Cores = dev.Capacity.Cores - held.Cores
	r.limited = dev.Capacity.Cores > 0
	r.held = held.Slots > 0
	r.exclusive = held.Exclusive
}

// fullness returns how full a device is with the pod's peak so far, 0 to 1: the mean over the
// dimensions that the device has.
func (s *Scratch) fullness(d int) float64 {
	capacity, held, peak := &s.node.Devices[d].Capacity, s.node.held(d), &s.peaks[d]
	sum, n := 0.0, 0.0
	if capacity.Slots > 0 {
		sum, n = sum+fraction(held.Slots+peak.Slots, capacity.Slots), n+1
	}
	if capacity.MemoryMiB > 0 {
		sum, n = sum+fraction(held.MemoryMiB+peak.MemoryMiB, capacity.MemoryMiB), n+1
	}
	if capacity.Cores > 0 {
		sum, n = sum+fraction(held.Cores+peak.Cores, capacity.Cores), n+1
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// fraction returns part/whole, at most 1: a rerun can leave a device more than full.
func fraction(part, whole int64) float64 { return min(1, float64(part)/float64(whole)) }

// refuses returns why a device does not take an amount in a phase where the pod already has the use u, or Fits. The
// order in which containers are added does not change the answer.
func (r *room) refuses(u *use, ask device.Amount) Reason {
	cores := r.free.Cores - u.Cores
	switch {
	case ask.Slots > r.free.Slots-u.Slots:
		return NoSlots
	case ask.MemoryMiB > r.free.MemoryMiB-u.MemoryMiB:
		return NoMemory
	case r.exclusive || u.exclusive || ask.Cores == device.WholeCores && (r.held || u.Slots > 0):
		return Exclusive
	case ask.Cores > cores:
		return NoCores
	case r.limited && ask.Cores == cores && (ask.Cores == 0 || u.unlimited):
		return NoCores // all cores reserved beside a container without limit
	}
	return Fits
}

// add puts an amount to a use.
func (u *use) add(ask device.Amount) {
	u.Amount = u.Plus(ask)
	u.exclusive = u.exclusive || ask.Cores == device.WholeCores
	u.unlimited = u.unlimited || ask.Cores == 0
}

// at returns the use of device d in phase k.
func (s *Scratch) at(k, d int) *use { return &s.uses[k*len(s.rooms)+d] }

// beside returns why device d does not take an amount for a container beside those that are placed, or Fits.
func (s *Scratch) beside(c *container, d int, ask device.Amount) Reason {
	for k := c.first; k <= c.last; k++ {
		if r := s.rooms[d].refuses(s.at(k, d), ask); r != Fits {
			return r
		}
	}
	return Fits
}

// take places a container on a device with an amount.
func (s *Scratch) take(c *container, d int, ask device.Amount) {
	c.chosen = append(c.chosen, choice{d, ask})
	for k := c.first; k <= c.last; k++ {
		u := s.at(k, d)
		u.add(ask)
		s.peaks[d] = s.peaks[d].Max(u.Amount)
	}
	s.rooms[d].fullness = s.fullness(d)
}

// rise returns by how much a container would raise the pod's peak on a device.
func (s *Scratch) rise(c *container, d int, ask device.Amount) device.Amount {
	peak := s.peaks[d]
	top := peak
	for k := c.first; k <= c.last; k++ {
		u := s.at(k, d)
		top = top.Max(u.Plus(ask))
	}
	return device.Amount{Slots: top.Slots - peak.Slots, MemoryMiB: top.MemoryMiB - peak.MemoryMiB,
		Cores: top.Cores - peak.Cores}
}

// record places the shares of an allocation without checking them, except those of the container at one position and
// those on devices that the node does not have.
func (s *Scratch) record(a device.Allocation, except int) {
	for i := range s.containers {
		c := &s.containers[i]
		if c.position == except || c.position >= len(a) {
			continue
		}
		for _, share := range a[c.position] {
			if d := s.node.find(share.UUID); d >= 0 {
				s.take(c, d, share.Amount)
			}
		}
	}
}

// find returns the index of a device, or -1.
func (n Node) find(uuid string) int {
	for d := range n.Devices {
		if n.Devices[d].UUID == uuid {
			return d
		}
	}
	return -1
}

// Allocation returns the allocation of the last Fit or Rate that returned Fits. It is valid until the scratch is used
// again.
func (s *Scratch) Allocation() device.Allocation {
	s.entries, s.shares = resized(s.entries, len(s.pod.Classes)), s.shares[:0]
	for i := range s.containers {
		c := &s.containers[i]
		start := len(s.shares)
		for _, chosen := range c.chosen {
			dev := &s.node.Devices[chosen.device]
			s.shares = append(s.shares, device.Share{UUID: dev.UUID, Family: dev.Family, Amount: chosen.amount})
		}
		// Growing moves the shares elsewhere; entries made before keep the old ones, which are equal.
		s.entries[c.position] = s.shares[start:len(s.shares):len(s.shares)]
	}
	return s.entries
}

// score is Score of what is placed.
func (s *Scratch) score() float64 {
	sum, n := 0.0, 0
	for d := range s.peaks {
		if s.peaks[d].Slots > 0 {
			sum += s.rooms[d].fullness
			n++
		}
	}
	switch {
	case n == 0:
		return 0
	case s.pod.NodePolicy == Spread:
		return 1 - sum/float64(n)
	}
	return sum / float64(n)
}

// resized returns a zeroed slice of a length, in the memory of s when that is enough.
func resized[S ~[]E, E any](s S, n int) S {
	if cap(s) < n {
		return make(S, n)
	}
	s = s[:n]
	clear(s)
	return s
}
