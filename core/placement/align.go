package placement

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Kubelet keeps the ids of a pod's init containers (not its sidecars) for the containers after them. A later container
// gets kept ids first, in random order; ids that a sidecar or app gets are kept no longer. While ids are kept, the
// Topology Manager offers a container only their NUMA node. (Kubernetes 1.37, pkg/kubelet/cm/devicemanager:
// devicesToReuse, generateDeviceTopologyHints.) So such a container is chained to those before it: its devices must be
// on the NUMA node of its ids.

// chain is some containers that inherit ids from each other. All their devices lie on one NUMA node.
type chain struct {
	most int  // the largest number of devices that one of them asks for
	node int  // of NUMA, when tied
	tied bool // else its containers are not restricted
}

// excludes reports whether the chain is tied to another NUMA node than the device's.
func (c *chain) excludes(dev *device.Device) bool { return c.tied && c.node != dev.NUMA }

// maxTies bounds the ways to tie chains to NUMA nodes that are tried: 2 chains (of 4 containers) on 8 NUMA
// nodes are 64.
const maxTies = 64

// findChains finds the chains of a loaded pod. Containers of which one asks for more devices than any NUMA node has are
// no chain, because they cannot be on one NUMA node.
func (s *Scratch) findChains() {
	roomiest := s.findNUMANodes()
	// ids kept; the chain's containers, and the first of them that is loaded; the next that is
	var kept, members, first, next int
	var current chain
	end := func() {
		if members < 2 || current.most > roomiest {
			return
		}
		for i := first; i < next; i++ {
			if c := &s.containers[i]; c.request.Family == s.pod.StrictFamily {
				c.chain = len(s.chains)
			}
		}
		s.chains = append(s.chains, current)
	}
	for i, class := range s.pod.Classes[:min(len(s.pod.Classes), len(s.pod.Requests))] {
		if r := &s.pod.Requests[i]; r.Devices > 0 && r.Family == s.pod.StrictFamily {
			if kept == 0 {
				end()
				current, members, first = chain{}, 0, next
			}
			members++
			current.most = max(current.most, r.Devices)
			if class == phase.Init {
				kept = max(kept, r.Devices)
			} else {
				kept = max(kept-r.Devices, 0)
			}
		}
		if next < len(s.containers) && s.containers[next].position == i {
			next++
		}
	}
	end()
}

// findNUMANodes lists the NUMA nodes that have devices of the family, and returns how many the one with
// most has. Kubelet knows none that are in MIG mode.
func (s *Scratch) findNUMANodes() (roomiest int) {
	s.numaNodes = s.numaNodes[:0]
	on := func(node int) (devices int) {
		for d := range s.node.Devices {
			if dev := &s.node.Devices[d]; dev.NUMA == node && dev.Family == s.pod.StrictFamily && dev.Mode != device.MIG {
				devices++
			}
		}
		return devices
	}
	for d := range s.node.Devices {
		node := s.node.Devices[d].NUMA
		if devices := on(node); devices > 0 && !slices.Contains(s.numaNodes, node) {
			s.numaNodes = append(s.numaNodes, node)
			roomiest = max(roomiest, devices)
		}
	}
	slices.Sort(s.numaNodes) // whatever the order of the devices
	return roomiest
}

// placeChains is placeAll for a pod with chains.
func (s *Scratch) placeChains() Reason {
	if found, _ := s.tie(); found {
		return Fits
	}
	s.untie()
	s.clear()
	r := s.placeAll()
	switch {
	case r.Unresolvable():
		return r
	case !s.wouldEmpty(s.tie):
		return NotOnOneNUMANode
	case r == Fits:
		return NotAligned
	}
	return r
}

// tie ties each chain to a NUMA node and places the pod. Of the ways in which greedy succeeds it takes the one with the
// least peak, then the policy's; else one that search finds. complete means that a failure is proof.
func (s *Scratch) tie() (found, complete bool) {
	ways := s.ways()
	complete = ways <= maxTies
	ways = min(ways, maxTies)
	best, least := -1, tieCost{}
	for way := range ways {
		s.tieTo(way)
		if !s.greedy() {
			continue
		}
		if c := s.tieCost(); best < 0 || s.cheaper(&c, &least) {
			best, least = way, c
		}
	}
	if best >= 0 {
		s.tieTo(best)
		return s.greedy(), true
	}
	for way := range ways {
		s.tieTo(way)
		found, all := s.find()
		if found && s.adopt() {
			return true, true
		}
		complete = complete && all
	}
	return false, complete
}

// tieNearest ties the chains in the way in which most containers find devices.
func (s *Scratch) tieNearest() {
	best, most := 0, -1
	for way := range s.ways() {
		s.tieTo(way)
		s.greedy()
		placed := 0
		for i := range s.containers {
			placed += min(1, len(s.containers[i].chosen))
		}
		if placed > most {
			best, most = way, placed
		}
	}
	s.tieTo(best)
}

// ways returns the number of ways to tie the chains, at most maxTies+1.
func (s *Scratch) ways() int {
	ways := 1
	for range s.chains {
		ways = min(ways*len(s.numaNodes), maxTies+1)
	}
	return ways
}

// tieTo ties the chains in one of the ways, with nothing placed.
func (s *Scratch) tieTo(way int) {
	for i := range s.chains {
		c := &s.chains[i]
		c.tied, c.node = true, s.numaNodes[way%len(s.numaNodes)]
		way /= len(s.numaNodes)
	}
	s.clear()
}

func (s *Scratch) untie() {
	for i := range s.chains {
		s.chains[i].tied = false
	}
}

// tieCost orders ways to tie chains: the pod's peak, over all devices, then how full they become.
type tieCost struct {
	peak     device.Amount
	fullness float64
}

func (s *Scratch) tieCost() tieCost {
	var c tieCost
	for d := range s.peaks {
		p := &s.peaks[d]
		c.peak = c.peak.Plus(*p)
		if p.Slots > 0 {
			c.fullness += s.rooms[d].fullness
		}
	}
	return c
}

func (s *Scratch) cheaper(a, b *tieCost) bool {
	if a.peak != b.peak {
		return less(a.peak, b.peak)
	}
	return a.fullness != b.fullness && s.prefers(a.fullness, b.fullness)
}

// chainsOnOneNUMANode reports whether the devices of each chain's containers lie on one NUMA node.
func (s *Scratch) chainsOnOneNUMANode() bool {
	s.untie()
	for i := range s.containers {
		c := &s.containers[i]
		if c.chain < 0 {
			continue
		}
		l := &s.chains[c.chain]
		for _, chosen := range c.chosen {
			dev := &s.node.Devices[chosen.device]
			if l.excludes(dev) {
				return false
			}
			l.tied, l.node = true, dev.NUMA
		}
	}
	return true
}
