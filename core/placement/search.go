package placement

import (
	"math/bits"
	"slices"
)

// The search gives up beyond these bounds. Pods of 4 containers on 8 devices take at most 9^4 states × 8 devices × 2^4
// sets = 840,000 trials, which is a few milliseconds, and in practice a hundredth of that.
const (
	maxParts  = 6       // containers that are searched for together
	maxStates = 1 << 22 // counts still to place, times devices
	maxTrials = 1 << 20 // sets tried on a device
)

// search finds devices for the containers that depend on each other, called parts: sidecars, apps, and the init
// containers that run beside a sidecar. (Any other init container runs alone.)
//
// It goes through the devices. Which sets of parts fit on each is computed before, so the state of the search is how
// many devices each part still needs. A state that failed once is not tried again.
type search struct {
	parts   []int  // indices into Scratch.containers
	order   []int  // devices, the policy's best first
	can     []bool // by device and set of parts: they fit there together
	sets    []uint // sets of parts in the order they are tried
	numa    []int  // by part: the NUMA node it is bound to
	bound   []bool // by part: it is bound to a NUMA node
	need    []int  // by part: devices still to find
	strides []int  // by part: weight of need in a state's number
	later   []int  // by depth and part: devices from there on that could hold the part
	failed  []uint64
	taken   []uint // by depth: the set put on that device
	trials  int
}

// find looks for a placement of all parts. complete tells that a failure is proof: everything was tried.
func (s *Scratch) find() (found, complete bool) {
	q := &s.search
	q.parts = q.parts[:0]
	for i := range s.containers {
		if c := &s.containers[i]; !c.init || s.meetsSidecar(c) {
			q.parts = append(q.parts, i)
		}
	}
	m, devices := len(q.parts), len(s.rooms)
	if m > maxParts {
		return false, false
	}
	states := 1
	q.need, q.strides = resized(q.need, m), resized(q.strides, m)
	for j, i := range q.parts {
		q.need[j], q.strides[j] = s.containers[i].request.Devices, states
		if states *= q.need[j] + 1; states > maxStates/(devices+1) {
			return false, false
		}
	}
	s.prepare(m)
	q.numa, q.bound = resized(q.numa, m), resized(q.bound, m)
	q.failed = resized(q.failed, (states*devices+63)/64)
	q.trials = 0
	found = s.bind(0, states-1)
	return found, found || q.trials <= maxTrials
}

// meetsSidecar reports whether a sidecar with devices is alive in an init container's turn.
func (s *Scratch) meetsSidecar(c *container) bool {
	for i := range s.containers {
		if other := &s.containers[i]; !other.init && other.first <= c.first {
			return true
		}
	}
	return false
}

// prepare fills the tables that do not depend on NUMA nodes.
func (s *Scratch) prepare(m int) {
	q := &s.search
	q.order = q.order[:0]
	s.ranks = s.ranks[:0]
	for d := range s.rooms {
		s.ranks = append(s.ranks, candidate{device: d, fullness: s.rooms[d].fullness})
	}
	s.sort(s.ranks, len(s.ranks))
	for _, k := range s.ranks {
		q.order = append(q.order, k.device)
	}

	// Binpack tries full sets first, Spread single containers, both the empty set last: a device that was
	// given up on is left with nothing taken.
	q.sets = q.sets[:0]
	for n := 1; n <= m; n++ {
		size := n
		if s.pod.DevicePolicy == Binpack {
			size = m + 1 - n
		}
		for set := uint(1); set < 1<<m; set++ {
			if bits.OnesCount(set) == size {
				q.sets = append(q.sets, set)
			}
		}
	}
	q.sets = append(q.sets, 0)

	q.can = resized(q.can, len(s.rooms)<<m)
	for d := range s.rooms {
		can := q.can[d<<m : (d+1)<<m]
		can[0] = true
		for set := uint(1); set < 1<<m; set++ {
			// A set cannot fit when the same without its lowest part does not.
			can[set] = can[set&(set-1)] && s.holds(d, set)
		}
	}
	q.taken = resized(q.taken, len(s.rooms))
	q.later = resized(q.later, (len(s.rooms)+1)*m)
}

// holds reports whether device d takes a set of parts together in every phase.
func (s *Scratch) holds(d int, set uint) bool {
	dev := &s.node.Devices[d]
	if s.rooms[d].refusal != Fits {
		return false
	}
	for k := range s.turns {
		var u use
		for j, i := range s.search.parts {
			c := &s.containers[i]
			if set>>j&1 == 0 || k < c.first || k > c.last {
				continue
			}
			ask := c.request.On(dev.Capacity.MemoryMiB)
			if dev.Family != c.request.Family || c.chain >= 0 && s.chains[c.chain].excludes(dev) || s.rooms[d].refuses(&u, ask) != Fits {
				return false
			}
			u.add(ask)
		}
	}
	return true
}

// bind gives every part from j on its NUMA node, if it must have one, and then goes down the devices.
func (s *Scratch) bind(j, state int) bool {
	q := &s.search
	if j == len(q.parts) {
		q.trials += 1 + len(q.failed)/16 // what follows costs as much as some trials
		s.countLater()
		clear(q.failed)
		return s.descend(0, state)
	}
	if !s.pod.NUMABind || q.need[j] < 2 {
		return s.bind(j+1, state)
	}
	q.bound[j] = true
	for i, d := range q.order {
		q.numa[j] = s.node.Devices[d].NUMA
		seen := slices.ContainsFunc(q.order[:i], func(e int) bool { return s.node.Devices[e].NUMA == q.numa[j] })
		if !seen && s.roomOn(q.numa[j], j) >= q.need[j] && q.trials <= maxTrials && s.bind(j+1, state) {
			return true
		}
	}
	return false
}

// roomOn counts the devices of a NUMA node that could hold a part.
func (s *Scratch) roomOn(node, j int) int {
	n := 0
	for d := range s.rooms {
		if s.node.Devices[d].NUMA == node && s.search.can[d<<len(s.search.parts)|1<<j] {
			n++
		}
	}
	return n
}

// countLater counts, from each depth on, the devices that could hold each part.
func (s *Scratch) countLater() {
	q := &s.search
	m := len(q.parts)
	for depth := len(q.order) - 1; depth >= 0; depth-- {
		d := q.order[depth]
		for j := range m {
			n := q.later[(depth+1)*m+j]
			if q.can[d<<m|1<<j] && (!q.bound[j] || q.numa[j] == s.node.Devices[d].NUMA) {
				n++
			}
			q.later[depth*m+j] = n
		}
	}
}

// descend puts a set of parts on the device at a depth and on those after it, until every part has
// its count. state is the number of the count vector need.
func (s *Scratch) descend(depth, state int) bool {
	q := &s.search
	if state == 0 {
		return true
	}
	m := len(q.parts)
	open := uint(0)
	for j, need := range q.need {
		if need > q.later[depth*m+j] {
			return false
		}
		if need > 0 && (!q.bound[j] || depth < len(q.order) && q.numa[j] == s.node.Devices[q.order[depth]].NUMA) {
			open |= 1 << j
		}
	}
	bit := state*len(q.order) + depth
	if q.failed[bit/64]>>(bit%64)&1 == 1 {
		return false
	}
	d := q.order[depth]
	for _, set := range q.sets {
		if q.trials++; q.trials > maxTrials {
			return false
		}
		if set&^open != 0 || !q.can[uint(d)<<m|set] {
			continue
		}
		next := state
		for rest := set; rest != 0; rest &= rest - 1 {
			j := bits.TrailingZeros(rest)
			q.need[j]--
			next -= q.strides[j]
		}
		q.taken[depth] = set
		found := s.descend(depth+1, next)
		for rest := set; rest != 0; rest &= rest - 1 {
			q.need[bits.TrailingZeros(rest)]++
		}
		if found {
			return true
		}
	}
	q.failed[bit/64] |= 1 << (bit % 64)
	return false
}

// adopt places sidecars and apps as found, and init containers where they raise the peak least. It reports whether the
// init containers that find did not look at, because they run alone, have devices too.
func (s *Scratch) adopt() bool {
	q := &s.search
	for depth, set := range q.taken {
		d := q.order[depth]
		for rest := set; rest != 0; rest &= rest - 1 {
			c := &s.containers[q.parts[bits.TrailingZeros(rest)]]
			if !c.init {
				s.take(c, d, c.request.On(s.node.Devices[d].Capacity.MemoryMiB))
			}
		}
	}
	return s.greedyInits()
}
