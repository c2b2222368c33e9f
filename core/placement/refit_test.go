package placement

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// refitTwin tries every device for every share. It returns whether there is a way, and the least
// number of shares moved and, among those ways, the least total peak in MiB.
func refitTwin(n Node, p *Pod, a device.Allocation, from, position int, allowed func(string) bool) (ok bool,
	moved int, peakMiB int64) {
	recorded := a[position]
	if !slices.ContainsFunc(recorded, func(s device.Share) bool { return !allowed(s.UUID) }) {
		return true, 0, totalPeakMiB(n, p, a, from)
	}
	if !aliveFrom(p.Classes, position, from) {
		return false, 0, 0
	}
	b := slices.Clone(a)
	b[position] = slices.Clone(recorded)
	var try func(i, changed int)
	try = func(i, changed int) {
		if i == len(recorded) {
			if !movesWell(n, p, a, b, from, position) || !stays(n, recorded, b[position], allowed) {
				return
			}
			peak := totalPeakMiB(n, p, b, from)
			if !ok || changed < moved || changed == moved && peak < peakMiB {
				ok, moved, peakMiB = true, changed, peak
			}
			return
		}
		for _, dev := range n.Devices {
			if !allowed(dev.UUID) || dev.UUID != recorded[i].UUID && allowed(recorded[i].UUID) && !p.NUMABind {
				continue // a share on an allowed device stays
			}
			b[position][i].UUID = dev.UUID
			if dev.UUID == recorded[i].UUID {
				try(i+1, changed)
			} else {
				try(i+1, changed+1)
			}
		}
	}
	try(0, 0)
	return ok, moved, peakMiB
}

// stays reports whether every share stays that could: on an allowed device of the NUMA node where the
// container ends. (Without NUMA bind there is no other way to try.)
func stays(n Node, recorded, got []device.Share, allowed func(string) bool) bool {
	node := func(uuid string) int { return n.Devices[n.find(uuid)].NUMA }
	for i := range got {
		if allowed(recorded[i].UUID) && got[i].UUID != recorded[i].UUID && node(recorded[i].UUID) == node(got[i].UUID) {
			return false
		}
	}
	return true
}

// movesWell judges the container's new shares; those that stay are judged by nothing but NUMA nodes.
func movesWell(n Node, p *Pod, a, b device.Allocation, from, position int) bool {
	var uuids []string
	var numas []int
	for i, share := range b[position] {
		d := slices.IndexFunc(n.Devices, func(d device.Device) bool { return d.UUID == share.UUID })
		dev := n.Devices[d]
		if slices.Contains(uuids, share.UUID) {
			return false
		}
		uuids = append(uuids, share.UUID)
		numas = append(numas, dev.NUMA)
		if share.UUID == a[position][i].UUID {
			continue
		}
		if !usable(p, dev) || dev.Family != share.Family || p.Requests[position].On(dev.Capacity.MemoryMiB).MemoryMiB > share.Amount.MemoryMiB {
			return false
		}
		for k := from; k < p.Classes.Len(); k++ {
			if p.Classes.Alive(k, position) && !sound(n, p, b, k, d) {
				return false
			}
		}
	}
	return !p.NUMABind || slices.Min(numas) == slices.Max(numas)
}

func TestRefitIsExactlyWhatTheTwinFinds(t *testing.T) {
	r := random(t)
	seen, moves, unlike := map[Reason]int{}, 0, 0
	for range 40000 {
		n := randomNode(r, 2+r.IntN(4))
		p := randomPod(r, 3, n)
		if r.IntN(3) == 0 { // unlike amounts, when the cards are
			p.Requests[r.IntN(len(p.Requests))] = device.Request{Family: "N", Devices: 2,
				MemoryPercent: 1 + r.Int64N(100)}
			for d := range n.Devices {
				n.Devices[d].Capacity.MemoryMiB = pick[int64](r, 10, 16, 20)
			}
		}
		n.Held = nil
		a, reason := Fit(n, p)
		if reason != Fits {
			continue
		}
		position := slices.IndexFunc(a, func(shares []device.Share) bool { return len(shares) > 0 && r.IntN(2) == 0 })
		if position < 0 {
			continue
		}
		if r.IntN(2) == 0 {
			n.Held = randomHeld(r, n)
		}
		before := normal(a)
		from := max(0, r.IntN(p.Classes.Len()+3)-2)
		set := map[string]bool{}
		for _, dev := range n.Devices {
			set[dev.UUID] = r.IntN(2) > 0
		}
		allowed := func(uuid string) bool { return set[uuid] }
		got, reason := Refit(n, p, a, from, position, allowed)
		seen[reason]++
		ok, moved, peak := refitTwin(n, p, a, from, position, allowed)
		where := func() string {
			return fmt.Sprintf("container %d from phase %d, allowed %v\nnode %+v\npod %+v\n%v → %v", position, from,
				set, n, p, a, got)
		}
		if ok != (reason == Fits) {
			t.Fatalf("got %q, the twin says %v\n%s", reason, ok, where())
		}
		if !reflect.DeepEqual(normal(a), before) {
			t.Fatalf("changed the allocation it was given\n%s", where())
		}
		if !ok {
			if !reflect.DeepEqual(got, a[position]) {
				t.Fatalf("refused, yet not the recorded shares\n%s", where())
			}
			continue
		}
		b := slices.Clone(a)
		b[position] = got
		changed, alike := 0, true
		for i, share := range got {
			if share.Amount != a[position][i].Amount || share.Family != a[position][i].Family || len(got) != len(a[position]) {
				t.Fatalf("count, amount or family changed\n%s", where())
			}
			if share.UUID != a[position][i].UUID {
				changed++
			}
			alike = alike && share.Amount == got[0].Amount
		}
		if changed > 0 && !movesWell(n, p, a, b, from, position) {
			t.Fatalf("breaks a rule\n%s", where())
		}
		if changed != moved {
			t.Fatalf("moved %d shares, %d would do\n%s", changed, moved, where())
		}
		// Which of the unlike shares goes where is not optimised.
		if alike && totalPeakMiB(n, p, b, from) != peak {
			t.Fatalf("peaks %d MiB, least is %d\n%s", totalPeakMiB(n, p, b, from), peak, where())
		}
		if changed > 0 {
			moves++
			if !alike {
				unlike++
			}
		}
	}
	t.Logf("%d moved, %d of them with unlike amounts; %v", moves, unlike, seen)
	if moves < 700 || unlike < 35 {
		t.Errorf("only %d moved, %d with unlike amounts", moves, unlike)
	}
}

// cards makes a node of NVIDIA cards named a, b, … of the given memory.
func cards(memoryMiB ...int64) Node {
	var n Node
	for i, memory := range memoryMiB {
		n.Devices = append(n.Devices, device.Device{
			UUID: string(rune('a' + i)), Index: i, Family: "NVIDIA", Model: "NVIDIA A100", Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: memory, Cores: 100},
		})
	}
	n.Held = make([]device.Usage, len(n.Devices))
	return n
}

// with lets others hold memory on a card.
func (n Node) with(d int, memoryMiB, cores int64) Node {
	n.Held = slices.Clone(n.Held)
	n.Held[d] = device.Usage{Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB, Cores: cores},
		Exclusive: cores == 100}
	return n
}

// but changes a card.
func (n Node) but(d int, change func(*device.Device)) Node {
	n.Devices = slices.Clone(n.Devices)
	change(&n.Devices[d])
	return n
}

// ask is a request for one NVIDIA device.
func ask(memoryMiB, cores int64) device.Request {
	return device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: memoryMiB, Cores: cores}
}

func percent(percent int64, devices int) device.Request {
	return device.Request{Family: "NVIDIA", Devices: devices, MemoryPercent: percent}
}

// on is a share of a card.
func on(uuid string, memoryMiB, cores int64) device.Share {
	return device.Share{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB,
		Cores: cores}}
}

func pod(classes string, requests ...device.Request) *Pod {
	p := &Pod{Requests: requests}
	for _, c := range classes {
		p.Classes = append(p.Classes, map[rune]phase.Class{'I': phase.Init, 'S': phase.Sidecar, 'A': phase.App}[c])
	}
	return p
}

func TestRefit(t *testing.T) {
	none := device.Request{}
	initApp := pod("IA", ask(30000, 0), ask(20000, 0))
	onAB := device.Allocation{{on("a", 30000, 0)}, {on("b", 20000, 0)}}
	tests := []struct {
		name           string
		node           Node
		pod            *Pod
		recorded       device.Allocation
		from, position int
		allowed        string
		want           string // UUIDs
		reason         Reason
	}{
		{"init moves to its app's card", cards(40960, 40960), initApp, onAB, 0, 0, "b", "b", Fits},
		{"a sidecar on the app's card is a sum", cards(40960, 40960), pod("SA", ask(30000, 0), ask(20000, 0)), onAB,
			0, 0, "b", "a", NoMemory},
		{"other pod's 15 on b", cards(40960, 40960).with(1, 15000, 0), initApp, onAB, 0, 0, "b", "a", NoMemory},
		{"other pod's 10 on b", cards(40960, 40960).with(1, 10000, 0), initApp, onAB, 0, 0, "b", "b", Fits},
		{"init leaves its two apps' card", cards(40960, 40960), pod("IAA", ask(5000, 0), ask(5000, 0), ask(5000, 0)),
			device.Allocation{{on("a", 5000, 0)}, {on("a", 5000, 0)}, {on("a", 5000, 0)}}, 0, 0, "b", "b", Fits},
		{"sidecar after a larger init", cards(40960, 40960), pod("ISA", ask(30000, 0), ask(20000, 0), none),
			device.Allocation{{on("b", 30000, 0)}, {on("a", 20000, 0)}, nil}, 0, 1, "b", "b", Fits},
		{"sidecar before a larger init", cards(40960, 40960), pod("SIA", ask(20000, 0), ask(30000, 0), none),
			device.Allocation{{on("a", 20000, 0)}, {on("b", 30000, 0)}, nil}, 0, 0, "b", "a", NoMemory},
		{"sidecar before a larger init that has completed", cards(40960, 40960),
			pod("SIA", ask(20000, 0), ask(30000, 0), none),
			device.Allocation{{on("a", 20000, 0)}, {on("b", 30000, 0)}, nil}, 1, 0, "b", "b", Fits},
		{"two apps are a sum", cards(40960, 40960), pod("AA", ask(30000, 0), ask(20000, 0)), onAB, 0, 0, "b", "a",
			NoMemory},
		{"slots are counted by entry", cards(40960, 40960).but(1, func(d *device.Device) { d.Capacity.Slots = 1 }),
			pod("AA", ask(1000, 0), ask(1000, 0)), device.Allocation{{on("a", 1000, 0)},
				{on("b", 1000, 0)}}, 0, 0, "b", "a", NoSlots},
		{"a container without devices in front shifts nothing", cards(40960, 40960),
			pod("IIA", none, ask(30000, 0), ask(20000, 0)),
			device.Allocation{nil, {on("a", 30000, 0)}, {on("b", 20000, 0)}}, 0, 1, "b", "b", Fits},
		{"already allowed", cards(40960, 40960).but(0, func(d *device.Device) { d.Healthy = false }), initApp, onAB,
			0, 0, "ab", "a", Fits},
		{"one of two devices is already right", cards(40960, 40960, 40960),
			pod("A", device.Request{Family: "NVIDIA", Devices: 2, MemoryMiB: 1000}),
			device.Allocation{{on("a", 1000, 0), on("b", 1000, 0)}}, 0, 0, "bc", "cb", Fits},
		{"fewer allowed than needed", cards(40960, 40960, 40960),
			pod("A", device.Request{Family: "NVIDIA", Devices: 2, MemoryMiB: 1000}),
			device.Allocation{{on("a", 1000, 0), on("b", 1000, 0)}}, 0, 0, "b", "ab", TooFewDevices},
		{"least rise of the peak", cards(40960, 40960, 40960), pod("IA", ask(10000, 0), ask(20000, 0)),
			device.Allocation{{on("a", 10000, 0)}, {on("c", 20000, 0)}}, 0, 0, "bc", "c", Fits},
		{"percentage on a larger card", cards(40960, 81920), pod("A", percent(50, 1)),
			device.Allocation{{on("a", 20480, 0)}}, 0, 0, "b", "a", NeedsMore},
		{"whole card on a larger card", cards(40960, 81920), pod("A", ask(0, 0)),
			device.Allocation{{on("a", 40960, 0)}}, 0, 0, "b", "a", NeedsMore},
		{"percentage on a smaller card keeps its MiB", cards(40960, 24576), pod("A", percent(50, 1)),
			device.Allocation{{on("a", 20480, 0)}}, 0, 0, "b", "b", Fits},
		{"percentage on a card too small for its MiB", cards(40960, 16384), pod("A", percent(50, 1)),
			device.Allocation{{on("a", 20480, 0)}}, 0, 0, "b", "a", CapacityTooSmall},
		// 20480 cannot go to d (held), 12288 not to c (it would need 20480): each amount goes where it can.
		{"amounts go with their card's share", cards(24576, 40960, 40960, 24576).with(3, 12000, 0),
			pod("A", percent(50, 2)),
			device.Allocation{{on("a", 12288, 0), on("b", 20480, 0)}}, 0, 0, "cd", "dc", Fits},
		{"MIG", cards(40960, 40960).but(1, func(d *device.Device) { d.Mode = device.MIG }), initApp, onAB, 0, 0, "b",
			"a", InMIGMode},
		{"unhealthy", cards(40960, 40960).but(1, func(d *device.Device) { d.Healthy = false }), initApp, onAB, 0, 0,
			"b", "a", Unhealthy},
		{"cordoned", cards(40960, 40960).but(1, func(d *device.Device) { d.Cordoned = true }), initApp, onAB, 0, 0,
			"b", "a", Cordoned},
		{"other family", cards(40960, 40960).but(1, func(d *device.Device) { d.Family = "NVIDIA2" }), initApp, onAB,
			0, 0, "b", "a", OtherFamily},
		{"not on the node", cards(40960, 40960), initApp, onAB, 0, 0, "z", "a", UnknownDevice},
		{"completed", cards(40960, 40960), initApp, onAB, 1, 0, "b", "a", PhaseOver},
		{"ended", cards(40960, 40960), initApp, onAB, phase.None, 1, "a", "b", PhaseOver},
		{"exclusive container needs a card of its own", cards(40960, 40960), pod("AA", ask(1000, 100), ask(1000, 0)),
			device.Allocation{{on("a", 1000, 100)}, {on("b", 1000, 0)}}, 0, 0, "b", "a", Exclusive},
		{"exclusive init beside its app", cards(40960, 40960), pod("IA", ask(1000, 100), ask(1000, 30)),
			device.Allocation{{on("a", 1000, 100)}, {on("b", 1000, 30)}}, 0, 0, "b", "b", Fits},
		{"record of another length", cards(40960, 40960), initApp, onAB[:1], 0, 0, "b", "", Mismatch},
		{"record of another count", cards(40960, 40960), initApp,
			device.Allocation{{on("a", 1, 0), on("b", 1, 0)}, {on("b", 1, 0)}}, 0, 0, "b", "", Mismatch},
		{"record beyond any card", cards(40960, 40960), initApp, device.Allocation{{on("a", 30000, 0)},
			{on("b", 1<<62, 0)}}, 0, 0, "b", "a", Mismatch},
		{"no such container", cards(40960, 40960), initApp, onAB, 0, 2, "b", "", Mismatch},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			allowed := func(uuid string) bool { return slices.Contains([]byte(test.allowed), uuid[0]) }
			got, reason := Refit(test.node, test.pod, test.recorded, test.from, test.position, allowed)
			uuids := ""
			for _, share := range got {
				uuids += share.UUID
			}
			if uuids != test.want || reason != test.reason {
				t.Errorf("got %q, %q; want %q, %q", uuids, reason, test.want, test.reason)
			}
		})
	}
}

// TestRefitKeepsOneNUMANode: a NUMA-bound container follows as a whole.
func TestRefitKeepsOneNUMANode(t *testing.T) {
	n := cards(40960, 40960, 40960, 40960)
	n.Devices[2].NUMA, n.Devices[3].NUMA = 1, 1
	p := pod("A", device.Request{Family: "NVIDIA", Devices: 2, MemoryMiB: 1000})
	p.NUMABind = true
	a := device.Allocation{{on("a", 1000, 0), on("b", 1000, 0)}}
	allowed := func(uuid string) bool { return uuid != "a" }
	got, reason := Refit(n, p, a, 0, 0, allowed)
	if want := []device.Share{on("c", 1000, 0), on("d", 1000, 0)}; reason != Fits || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %q; want %v", got, reason, want)
	}
	if got, reason := Refit(n.with(3, 40960, 0), p, a, 0, 0,
		allowed); reason != NotOnOneNUMANode || !reflect.DeepEqual(got, a[0]) {
		t.Errorf("got %v, %q; want the recorded shares, %q", got, reason, NotOnOneNUMANode)
	}
	// Of two nodes the one where a share can stay, then the one where the peak rises less.
	n = cards(40960, 40960, 40960, 40960, 40960, 40960).numa("001122")
	a = device.Allocation{{on("c", 1000, 0), on("d", 1000, 0)}}
	n = n.but(4, func(d *device.Device) { d.NUMA = 1 })
	got, reason = Refit(n, p, a, 0, 0, func(uuid string) bool { return uuid != "c" })
	if want := []device.Share{on("e", 1000, 0), on("d", 1000, 0)}; reason != Fits || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %q; want %v", got, reason, want)
	}
	p = pod("IA", devices(2, 1000, 0), devices(2, 1000, 0)).bound()
	a = device.Allocation{{on("a", 1000, 0), on("b", 1000, 0)}, {on("e", 1000, 0), on("f", 1000, 0)}}
	n = n.numa("001122")
	got, reason = Refit(n, p, a, 0, 0, func(uuid string) bool { return uuid >= "c" })
	if want := a[1]; reason != Fits || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %q; want %v", got, reason, want)
	}
}
