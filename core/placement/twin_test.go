package placement

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// The twin says the rules of placement once more, as slowly and plainly as they can be said: it tries
// every set of devices for every container and looks at each phase and device of what comes out.

// valid reports whether an allocation, which may leave containers empty, obeys every rule over the
// phases from index from on.
func valid(n Node, p *Pod, a device.Allocation, from int) bool {
	for i, shares := range a {
		if !aliveFrom(p.Classes, i, from) {
			continue
		}
		var uuids []string
		var numas []int
		for _, share := range shares {
			d := slices.IndexFunc(n.Devices, func(d device.Device) bool { return d.UUID == share.UUID })
			if d < 0 || slices.Contains(uuids, share.UUID) {
				return false
			}
			uuids = append(uuids, share.UUID)
			numas = append(numas, n.Devices[d].NUMA)
			if !usable(p, n.Devices[d]) || n.Devices[d].Family != p.Requests[i].Family || share.Family != p.Requests[i].Family ||
				share.Amount != p.Requests[i].On(n.Devices[d].Capacity.MemoryMiB) {
				return false
			}
		}
		if p.NUMABind && len(numas) > 0 && slices.Min(numas) != slices.Max(numas) {
			return false
		}
	}
	for k := from; k < p.Classes.Len(); k++ {
		for d := range n.Devices {
			if !sound(n, p, a, k, d) {
				return false
			}
		}
	}
	return chainsHold(n, p, a, from)
}

// chainsHold reports whether containers that may get ids of one another lie on one NUMA node, as far as
// any has enough devices for each of them.
func chainsHold(n Node, p *Pod, a device.Allocation, from int) bool {
	devices := map[int]int{} // by NUMA node
	numa := map[string]int{} // by UUID
	for _, d := range n.Devices {
		numa[d.UUID] = d.NUMA
		if d.Family == p.StrictFamily && d.Mode != device.MIG {
			devices[d.NUMA]++
		}
	}
	for _, chain := range kinship(p) {
		numas, possible := map[int]bool{}, false
		for _, count := range devices {
			possible = possible || !slices.ContainsFunc(chain,
				func(i int) bool { return p.Requests[i].Devices > count })
		}
		for _, i := range chain {
			for _, share := range a[i] {
				if aliveFrom(p.Classes, i, from) {
					numas[numa[share.UUID]] = true
				}
			}
		}
		if possible && len(numas) > 1 {
			return false
		}
	}
	return true
}

// kinship returns the sets of containers that may get ids of one another, by whatever ids kubelet picks. It
// hands out ids as kubelet does, in every way there is.
func kinship(p *Pod) [][]int {
	if p.StrictFamily == "" {
		return nil
	}
	kin := map[[2]int]bool{}
	var allocate func(i, fresh int, kept map[int][]int) // kept: by id the inits that had it
	allocate = func(i, fresh int, kept map[int][]int) {
		for i < len(p.Classes) && (p.Requests[i].Family != p.StrictFamily || p.Requests[i].Devices == 0) {
			i++
		}
		if i == len(p.Classes) {
			return
		}
		ids := slices.Sorted(maps.Keys(kept))
		reused := min(p.Requests[i].Devices, len(ids))
		for _, set := range setsOf(len(ids), reused) {
			next := maps.Clone(kept)
			for _, k := range set {
				for _, owner := range kept[ids[k]] {
					kin[[2]int{owner, i}] = true
				}
				if delete(next, ids[k]); p.Classes[i] == phase.Init {
					next[ids[k]] = append(slices.Clone(kept[ids[k]]), i)
				}
			}
			if p.Classes[i] == phase.Init {
				for k := range p.Requests[i].Devices - reused {
					next[fresh+k] = []int{i}
				}
			}
			allocate(i+1, fresh+p.Requests[i].Devices, next)
		}
	}
	allocate(0, 0, map[int][]int{})

	var sets [][]int
	for i := range p.Classes {
		var joined []int
		sets = slices.DeleteFunc(sets, func(set []int) bool {
			related := slices.ContainsFunc(set, func(j int) bool { return kin[[2]int{j, i}] })
			if related {
				joined = append(joined, set...)
			}
			return related
		})
		sets = append(sets, append(joined, i))
	}
	return slices.DeleteFunc(sets, func(set []int) bool { return len(set) < 2 })
}

// sound looks at one device in one phase. What others hold is no fault of a pod that is not there.
func sound(n Node, p *Pod, a device.Allocation, k, d int) bool {
	var there []device.Amount
	for i, shares := range a {
		for _, share := range shares {
			if share.UUID == n.Devices[d].UUID && p.Classes.Alive(k, i) {
				there = append(there, share.Amount)
			}
		}
	}
	if len(there) == 0 {
		return true
	}
	capacity, held := n.Devices[d].Capacity, device.Usage{}
	if n.Held != nil {
		held = n.Held[d]
	}
	total := held.Amount
	for _, amount := range there {
		total.Slots += amount.Slots
		total.MemoryMiB += amount.MemoryMiB
		total.Cores += amount.Cores
	}
	if total.Slots > capacity.Slots || total.MemoryMiB > capacity.MemoryMiB || total.Cores > capacity.Cores || held.Exclusive {
		return false
	}
	for _, amount := range there {
		if amount.Cores == 100 && (held.Slots > 0 || len(there) > 1) {
			return false
		}
		if amount.Cores == 0 && capacity.Cores > 0 && total.Cores >= capacity.Cores {
			return false
		}
	}
	return true
}

func usable(p *Pod, d device.Device) bool {
	word := func(w string) bool { return strings.Contains(strings.ToLower(d.Model), strings.ToLower(w)) }
	s := p.Selector
	selected := s.Family != "" && s.Family != d.Family ||
		(len(s.UseUUIDs) == 0 || slices.Contains(s.UseUUIDs, d.UUID)) && !slices.Contains(s.AvoidUUIDs, d.UUID) &&
			(len(s.UseModels) == 0 || slices.ContainsFunc(s.UseModels, word)) && !slices.ContainsFunc(s.AvoidModels,
			word)
	return selected && d.Healthy && !d.Cordoned && d.Mode != device.MIG
}

func aliveFrom(p phase.Pod, position, from int) bool {
	for k := from; k < p.Len(); k++ {
		if p.Alive(k, position) {
			return true
		}
	}
	return false
}

// exists reports whether there is a valid allocation. Taking a container away never breaks a rule, so
// with prune it gives up an incomplete allocation that is not valid; without, it looks at complete
// ones alone.
func exists(n Node, p *Pod, prune bool) bool {
	a := make(device.Allocation, len(p.Classes))
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(a) {
			return valid(n, p, a, 0)
		}
		if prune && !valid(n, p, a, 0) {
			return false
		}
		for _, set := range setsOf(len(n.Devices), p.Requests[i].Devices) {
			a[i] = nil
			for _, d := range set {
				dev := n.Devices[d]
				a[i] = append(a[i], device.Share{UUID: dev.UUID, Family: dev.Family,
					Amount: p.Requests[i].On(dev.Capacity.MemoryMiB)})
			}
			if try(i + 1) {
				return true
			}
		}
		a[i] = nil
		return false
	}
	return try(0)
}

// setsOf returns all sets of k numbers below n.
func setsOf(n, k int) [][]int {
	if k == 0 {
		return [][]int{nil}
	}
	var sets [][]int
	for last := k - 1; last < n; last++ {
		for _, set := range setsOf(last, k-1) {
			sets = append(sets, append(slices.Clone(set), last))
		}
	}
	return sets
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// randomNode makes a small node on which every rule has a chance to matter: few slots, small cards,
// some of them unlike, and others who hold something.
func randomNode(r *rand.Rand, devices int) Node {
	var n Node
	for i := range devices {
		dev := device.Device{
			UUID: string(rune('a' + i)), Index: i, Family: "N", Model: pick(r, "Model-A", "model-B"), NUMA: r.IntN(2),
			Capacity: device.Amount{Slots: pick[int64](r, 1, 2, 3, 9), MemoryMiB: pick[int64](r, 10, 10, 16),
				Cores: pick[int64](r, 100, 100, 100, 0, 200)},
			Healthy: r.IntN(30) > 0, Cordoned: r.IntN(40) == 0,
		}
		if r.IntN(20) == 0 {
			dev.Family = "M"
		}
		if r.IntN(40) == 0 {
			dev.Mode = device.MIG
		}
		n.Devices = append(n.Devices, dev)
	}
	n.Held = randomHeld(r, n)
	return n
}

func randomHeld(r *rand.Rand, n Node) []device.Usage {
	held := make([]device.Usage, len(n.Devices))
	for d := range held {
		switch r.IntN(8) {
		case 0:
			held[d] = device.Usage{Amount: device.Amount{Slots: 1, MemoryMiB: r.Int64N(11), Cores: 100},
				Exclusive: true}
		case 1, 2, 3:
			held[d] = device.Usage{Amount: device.Amount{Slots: 1 + r.Int64N(2), MemoryMiB: r.Int64N(11),
				Cores: pick[int64](r, 0, 0, 30, 50, 70, 100)}}
		}
	}
	return held
}

// randomPod makes a pod of up to 6 containers, at most most of them with devices.
func randomPod(r *rand.Rand, most int, n Node) *Pod {
	p := &Pod{DevicePolicy: pick(r, Binpack, Spread), NodePolicy: pick(r, Binpack, Spread), NUMABind: r.IntN(4) == 0,
		StrictFamily: pick(r, "", "", "N")}
	inits := r.IntN(4)
	for range inits {
		p.Classes = append(p.Classes, pick(r, phase.Init, phase.Init, phase.Sidecar))
	}
	for range 1 + r.IntN(3) {
		p.Classes = append(p.Classes, phase.App)
	}
	p.Requests = make([]device.Request, len(p.Classes))
	for range most {
		request := device.Request{Family: "N", Devices: min(len(n.Devices)+r.IntN(15)/14, pick(r, 1, 1, 1, 2, 2, 3)),
			Cores: pick[int64](r, 0, 0, 0, 30, 30, 50, 70, 100)}
		switch r.IntN(10) {
		case 0:
			request.MemoryPercent = 1 + r.Int64N(100)
		case 1: // the whole card
		default:
			request.MemoryMiB = 1 + r.Int64N(8)
		}
		if r.IntN(40) == 0 {
			request.Family = "M"
		}
		p.Requests[r.IntN(len(p.Requests))] = request
	}
	uuid := func() string { return n.Devices[r.IntN(len(n.Devices))].UUID }
	switch r.IntN(12) {
	case 0:
		p.Selector.UseUUIDs = []string{uuid(), uuid(), uuid()}
	case 1:
		p.Selector.AvoidUUIDs = []string{uuid(), "a longer one than any"}
	case 2:
		p.Selector.UseModels = []string{pick(r, "-a", "MODEL", "el-B")}
	case 3:
		p.Selector.AvoidModels = []string{pick(r, "DEL-a", "el-B", "a longer word than any model")}
	}
	return p
}
