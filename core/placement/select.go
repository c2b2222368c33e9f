package placement

import (
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// refuses returns why none of the pod's containers may use a device, or Fits.
func (p *Pod) refuses(dev *device.Device) Reason {
	switch {
	case !p.Selector.Admits(dev):
		return NotSelected
	case dev.Mode == device.MIG:
		return InMIGMode
	case !dev.Healthy:
		return Unhealthy
	case dev.Cordoned:
		return Cordoned
	}
	return Fits
}

// Admits reports whether a pod with this selector may use a device.
func (s *Selector) Admits(dev *device.Device) bool {
	switch {
	case s.Family != "" && s.Family != dev.Family:
		return true
	case len(s.UseUUIDs) > 0 && !slices.Contains(s.UseUUIDs, dev.UUID),
		slices.Contains(s.AvoidUUIDs, dev.UUID),
		len(s.UseModels) > 0 && !containsAny(dev.Model, s.UseModels),
		containsAny(dev.Model, s.AvoidModels):
		return false
	}
	return true
}

// containsAny reports whether a model contains one of the words, ignoring case.
func containsAny(model string, words []string) bool {
	for _, word := range words {
		for i := 0; i+len(word) <= len(model); i++ {
			if strings.EqualFold(model[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}

// candidate is a device that a container fits on.
type candidate struct {
	device   int
	rise     device.Amount // of the pod's peak there; zero for sidecars and apps
	fullness float64
}

// greedy places sidecars and apps in position order, each on the policy's best devices, and then the init containers,
// each where it raises the pod's peak least.
func (s *Scratch) greedy() bool {
	for i := range s.containers {
		if c := &s.containers[i]; !c.init && !s.choose(c) {
			return false
		}
	}
	return s.greedyInits()
}

// greedyInits places the init containers. Once sidecars and apps are placed, init containers are independent of each
// other, so it succeeds whenever that is possible.
func (s *Scratch) greedyInits() bool {
	for i := range s.containers {
		if c := &s.containers[i]; c.init && !s.choose(c) {
			return false
		}
	}
	return true
}

// choose places a container on the best devices, or reports that it fits on too few.
func (s *Scratch) choose(c *container) bool {
	n := c.request.Devices
	s.ranks = s.ranks[:0]
	for d := range s.rooms {
		r, dev := &s.rooms[d], &s.node.Devices[d]
		if r.refusal != Fits || dev.Family != c.request.Family || c.chain >= 0 && s.chains[c.chain].excludes(dev) {
			continue
		}
		ask := c.request.On(dev.Capacity.MemoryMiB)
		if s.beside(c, d, ask) != Fits {
			continue
		}
		k := candidate{device: d, fullness: r.fullness}
		if c.init {
			k.rise = s.rise(c, d, ask)
		}
		switch {
		case n > 1 || len(s.ranks) == 0:
			s.ranks = append(s.ranks, k)
		case s.better(&k, &s.ranks[0]):
			s.ranks[0] = k // of one device only the best is kept
		}
	}
	if len(s.ranks) < n {
		return false
	}
	best := s.ranks
	if s.pod.NUMABind && n > 1 {
		if best = s.bestOnOneNUMANode(n); best == nil {
			return false
		}
	} else {
		s.sort(best, n)
	}
	for _, k := range best[:n] {
		s.take(c, k.device, c.request.On(s.node.Devices[k.device].Capacity.MemoryMiB))
	}
	return true
}

// sort puts the best n candidates first, in order. It is a selection sort because n is mostly 1.
func (s *Scratch) sort(ranks []candidate, n int) {
	for i := range min(n, len(ranks)-1) {
		best := i
		for j := i + 1; j < len(ranks); j++ {
			if s.better(&ranks[j], &ranks[best]) {
				best = j
			}
		}
		ranks[i], ranks[best] = ranks[best], ranks[i]
	}
}

// better orders candidates: the least rise of the pod's peak, then the policy, then the lowest index.
func (s *Scratch) better(a, b *candidate) bool {
	switch {
	case a.rise != b.rise:
		return less(a.rise, b.rise)
	case a.fullness != b.fullness:
		return s.prefers(a.fullness, b.fullness)
	}
	i, j := s.node.Devices[a.device].Index, s.node.Devices[b.device].Index
	return i < j || i == j && a.device < b.device
}

// prefers reports whether the policy prefers fullness a to b.
func (s *Scratch) prefers(a, b float64) bool {
	if s.pod.DevicePolicy == Spread {
		return a < b
	}
	return a > b
}

// less orders amounts by memory, then cores, then slots: memory is what GPUs run out of.
func less(a, b device.Amount) bool {
	switch {
	case a.MemoryMiB != b.MemoryMiB:
		return a.MemoryMiB < b.MemoryMiB
	case a.Cores != b.Cores:
		return a.Cores < b.Cores
	}
	return a.Slots < b.Slots
}

// bestOnOneNUMANode returns the best n candidates that lie on one NUMA node, or nil.
func (s *Scratch) bestOnOneNUMANode(n int) []candidate {
	all := s.ranks
	s.sort(all, len(all))
	var best []candidate
	for i := range all {
		// Best first, so a node's first n are its best; they are moved behind all by appending.
		node := s.node.Devices[all[i].device].NUMA
		if slices.ContainsFunc(all[:i], func(k candidate) bool { return s.node.Devices[k.device].NUMA == node }) {
			continue
		}
		start := len(s.ranks)
		for _, k := range all[i:] {
			if s.node.Devices[k.device].NUMA == node && len(s.ranks)-start < n {
				s.ranks = append(s.ranks, k)
			}
		}
		if group := s.ranks[start:]; len(group) == n && (best == nil || s.betterGroup(group, best)) {
			best = group
		}
	}
	return best
}

// betterGroup orders sets of candidates of one size as better orders single ones.
func (s *Scratch) betterGroup(a, b []candidate) bool {
	x, y := sum(a), sum(b)
	if x.rise != y.rise {
		return less(x.rise, y.rise)
	}
	return x.fullness != y.fullness && s.prefers(x.fullness, y.fullness)
}

func sum(ranks []candidate) candidate {
	var total candidate
	for _, k := range ranks {
		total.rise = total.rise.Plus(k.rise)
		total.fullness += k.fullness
	}
	return total
}
