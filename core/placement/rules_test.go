package placement

import (
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

// uuids writes an allocation as letters: one word per container, "-" for none.
func uuids(a device.Allocation) string {
	words := make([]string, len(a))
	for i, shares := range a {
		words[i] = "-"
		if len(shares) > 0 {
			words[i] = ""
		}
		for _, share := range shares {
			words[i] += share.UUID
		}
	}
	return strings.Join(words, " ")
}

// devices is a request for several NVIDIA devices.
func devices(n int, memoryMiB, cores int64) device.Request {
	r := ask(memoryMiB, cores)
	r.Devices = n
	return r
}

func (p *Pod) selecting(s Selector) *Pod { p.Selector = s; return p }
func (p *Pod) spread() *Pod              { p.DevicePolicy, p.NodePolicy = Spread, Spread; return p }
func (p *Pod) bound() *Pod               { p.NUMABind = true; return p }
func (p *Pod) strict() *Pod              { p.StrictFamily = "NVIDIA"; return p }

// numa puts the cards on NUMA nodes, one digit each.
func (n Node) numa(nodes string) Node {
	for i := range nodes {
		n = n.but(i, func(d *device.Device) { d.NUMA = int(nodes[i] - '0') })
	}
	return n
}

func slots(n int64) func(*device.Device) {
	return func(d *device.Device) { d.Capacity.Slots = n }
}

func model(name string) func(*device.Device) {
	return func(d *device.Device) { d.Model = name }
}

func TestFit(t *testing.T) {
	none := device.Request{}
	amd := device.Request{Family: "AMD", Devices: 1, MemoryMiB: 1000}
	onAMD := func(d *device.Device) { d.Family = "AMD" }
	unhealthy := func(d *device.Device) { d.Healthy = false }
	cordoned := func(d *device.Device) { d.Cordoned = true }
	mig := func(d *device.Device) { d.Mode = device.MIG }
	noCores := func(d *device.Device) { d.Capacity.Cores = 0 }
	tests := []struct {
		name   string
		node   Node
		pod    *Pod
		want   string
		reason Reason
	}{
		// Phases.
		{"three inits in turn and an app", cards(16384), pod("IIIA", ask(10000, 0), ask(10000, 0), ask(10000, 0),
			ask(4000, 0)), "a a a a", Fits},
		{"sidecar and app are a sum", cards(8000), pod("SA", ask(4000, 0), ask(4000, 0)), "a a", Fits},
		{"sidecar and app: 7999 MiB do not do", cards(7999), pod("SA", ask(4000, 0), ask(4000, 0)), "",
			CapacityTooSmall},
		{"init before the sidecar", cards(20000), pod("ISIA", ask(20000, 0), ask(2000, 0), ask(5000, 0),
			ask(10000, 0)), "a a a a", Fits},
		{"sidecar before the init", cards(22000), pod("SIA", ask(2000, 0), ask(20000, 0), ask(10000, 0)), "a a a",
			Fits},
		{"sidecar before the init: 21999 MiB do not do", cards(21999),
			pod("SIA", ask(2000, 0), ask(20000, 0), ask(10000, 0)), "", CapacityTooSmall},
		{"a container without devices keeps its place", cards(24000), pod("IAA", none, ask(12000, 0), ask(12000, 0)),
			"- a a", Fits},
		{"two apps of 32000 MiB on 24000", cards(24000), pod("IAA", none, ask(16000, 0), ask(16000, 0)), "",
			CapacityTooSmall},
		{"nothing asked", cards(16384), pod("IA", none, none), "- -", Fits},
		{"nothing asked, no devices", Node{}, pod("IA", none, none), "- -", Fits},
		{"others' share is held in every phase", cards(16384).with(0, 6385, 0),
			pod("IA", ask(10000, 0), ask(4000, 0)), "", NoMemory},
		{"books above capacity take nothing", cards(16384).with(0, 20000, 0), pod("A", ask(1, 0)), "", NoMemory},
		{"slots are counted by phase", cards(16384).but(0, slots(2)), pod("ISA", ask(1, 0), ask(1, 0), ask(1, 0)),
			"a a a", Fits},
		{"slots of the steady state", cards(16384).but(0, slots(2)), pod("SAA", ask(1, 0), ask(1, 0), ask(1, 0)), "",
			CapacityTooSmall},
		{"slots held by others", cards(16384).but(0, slots(1)).with(0, 1, 0), pod("A", ask(1, 0)), "", NoSlots},

		// Devices of one container.
		{"two devices are two cards", cards(16384, 16384), pod("A", devices(2, 2048, 0)), "ab", Fits},
		{"two devices on one card", cards(16384), pod("A", devices(2, 2048, 0)), "", TooFewDevices},
		{"percent of unlike cards", cards(40960, 24576).with(0, 20480, 0).with(1, 12288, 0), pod("A", percent(50, 2)),
			"ab", Fits},
		{"percent of unlike cards, one MiB too few", cards(40960, 24576).with(0, 20480, 0).with(1, 12289, 0),
			pod("A", percent(50, 2)), "", NoMemory},
		{"whole card", cards(16384).with(0, 1, 0), pod("A", ask(0, 0)), "", NoMemory},
		{"two families", cards(16384, 16384).but(0, onAMD), pod("AA", ask(1000, 0), amd), "b a", Fits},
		{"family is exact", cards(16384).but(0, func(d *device.Device) { d.Family = "NVIDIA2" }),
			pod("A", ask(1000, 0)), "", NoDevices},

		// Cores.
		{"init alone, app not", cards(16384), pod("IA", ask(1, 100), ask(1, 30)), "a a", Fits},
		{"exclusive beside others", cards(16384).with(0, 1, 0), pod("A", ask(1, 100)), "", Exclusive},
		{"exclusive beside its own sidecar", cards(16384), pod("SI", ask(1, 0), ask(1, 100)), "", CapacityTooSmall},
		{"exclusive init before the sidecar", cards(16384), pod("IS", ask(1, 100), ask(1, 0)), "a a", Fits},
		{"exclusive app finds another card", cards(16384, 16384), pod("SA", ask(1, 0), ask(1, 100)), "a b", Fits},
		{"two exclusive", cards(16384), pod("AA", ask(1, 100), ask(1, 100)), "", CapacityTooSmall},
		{"joining an exclusive holder with cores", cards(16384).but(0,
			func(d *device.Device) { d.Capacity.Cores = 200 }).with(0, 1, 100), pod("A", ask(1, 30)), "", Exclusive},
		{"no limit where all cores are reserved", cards(16384).with(0, 1, 99), pod("SA", ask(1, 1), ask(1, 0)), "",
			NoCores},
		{"no limit where 1% is left", cards(16384).with(0, 1, 98), pod("SA", ask(1, 1), ask(1, 0)), "a a", Fits},
		{"all cores reserved beside one without limit", cards(16384).with(0, 1, 99), pod("SA", ask(1, 0), ask(1, 1)),
			"", NoCores},
		{"no limit and init of all that is left", cards(16384).with(0, 1, 50), pod("SI", ask(1, 0), ask(1, 50)), "",
			NoCores},
		{"no limit on a device that counts no cores", cards(16384).but(0, noCores), pod("A", ask(1, 0)), "a", Fits},
		{"cores on a device that counts none", cards(16384).but(0, noCores), pod("A", ask(1, 1)), "", CapacityTooSmall},
		{"cores held", cards(16384).with(0, 1, 71), pod("A", ask(1, 30)), "", NoCores},

		// What refuses a device by itself.
		{"unhealthy", cards(16384, 16384).but(0, unhealthy), pod("A", ask(1, 0)), "b", Fits},
		{"all unhealthy", cards(16384).but(0, unhealthy), pod("A", ask(1, 0)), "", Unhealthy},
		{"cordoned", cards(16384, 16384).but(0, cordoned), pod("A", ask(1, 0)), "b", Fits},
		{"all cordoned", cards(16384).but(0, cordoned), pod("A", ask(1, 0)), "", Cordoned},
		{"MIG", cards(16384, 16384).but(0, mig), pod("A", ask(1, 0)), "b", Fits},
		{"all MIG", cards(16384).but(0, mig), pod("A", ask(1, 0)), "", InMIGMode},
		{"use UUID", cards(16384, 16384), pod("A", ask(1, 0)).selecting(Selector{UseUUIDs: []string{"x", "b"}}), "b",
			Fits},
		{"UUIDs are exact", cards(16384), pod("A", ask(1, 0)).selecting(Selector{UseUUIDs: []string{"A", "aa"}}), "",
			NotSelected},
		{"avoid UUID", cards(16384, 16384), pod("A", ask(1, 0)).selecting(Selector{AvoidUUIDs: []string{"a", "bb"}}),
			"b", Fits},
		{"use model, ignoring case", cards(16384, 16384).but(1, model("Tesla V100")),
			pod("A", ask(1, 0)).selecting(Selector{UseModels: []string{"H100", "v100"}}), "b", Fits},
		{"avoid model", cards(16384, 16384), pod("A", ask(1,
			0)).selecting(Selector{AvoidModels: []string{"nvidia a1"}}), "", NotSelected},
		{"a family's selectors leave other families alone", cards(16384, 16384).but(0, onAMD),
			pod("AA", ask(1000, 0), amd).selecting(Selector{Family: "NVIDIA", UseUUIDs: []string{"b"}}), "b a", Fits},
		{"a selector without a family restricts all", cards(16384, 16384).but(0, onAMD),
			pod("AA", ask(1000, 0), amd).selecting(Selector{UseUUIDs: []string{"b"}}), "", NotSelected},
		{"the selectors bind every container", cards(16384, 16384),
			pod("AA", ask(10000, 0), ask(10000, 0)).selecting(Selector{AvoidUUIDs: []string{"b"}}), "", CapacityTooSmall},

		// NUMA nodes.
		{"bound to one node", cards(9, 9, 9, 9).numa("0101"), pod("A", devices(2, 5, 0)).bound(), "ac", Fits},
		{"bound, and one card full", cards(9, 9, 9, 9).numa("0101").with(2, 9, 0), pod("A", devices(2, 5, 0)).bound(),
			"bd", Fits},
		{"bound, and no node has two", cards(9, 9, 9, 9).numa("0101").with(2, 9, 0).with(1, 9, 0),
			pod("A", devices(2, 5, 0)).bound(), "", NoMemory},
		{"no node could ever", cards(9, 9, 9).numa("012"), pod("A", devices(2, 5, 0)).bound(), "", NotOnOneNUMANode},
		{"not bound", cards(9, 9, 9).numa("012"), pod("A", devices(2, 5, 0)), "ab", Fits},
		{"each container by itself", cards(9, 9).numa("01"), pod("AA", ask(9, 0), ask(9, 0)).bound(), "a b", Fits},

		{"the node that is emptier on the whole", cards(99, 99, 99, 99).numa("0011").with(1, 90, 0).with(2, 30,
			0).with(3, 30, 0), pod("A", devices(2, 5, 0)).bound().spread(), "cd", Fits},
		{"the node where an init raises less on the whole, though it is fuller",
			cards(30, 65, 35, 35).numa("0011").with(0, 0, 60).with(2, 5, 0).with(3, 5, 0),
			pod("IAAA", devices(2, 30, 0), ask(60, 0), ask(20, 50), ask(20, 50)).bound().spread(), "cd b c d", Fits},

		// Strict: who inherits device ids from init containers is on their NUMA node.
		{"not strict: the init goes where the room is", cards(20, 10).numa("01").with(1, 9, 0),
			pod("IA", ask(5, 0), ask(1, 0)), "a b", Fits},
		{"strict: the app inherits", cards(20, 10).numa("01").with(1, 9, 0), pod("IA", ask(5, 0), ask(1, 0)).strict(),
			"a a", Fits},
		{"the sidecar inherits and the app does not", cards(20, 16).numa("01"),
			pod("ISA", ask(20, 0), ask(5, 0), ask(16, 0)).strict(), "a a b", Fits},
		{"an init hands on to the next", cards(20, 10).numa("01").with(1, 4, 0),
			pod("IIA", ask(10, 0), ask(2, 0), ask(1, 0)).strict(), "a a a", Fits},
		{"a sidecar hands nothing on", cards(20, 10).numa("01"), pod("SIA", ask(18, 0), ask(5, 0),
			ask(5, 0)).strict(), "a b b", Fits},
		{"two ids, two apps", cards(9, 9, 20, 9).numa("0011").with(1, 7, 0),
			pod("IAA", devices(2, 3, 0), ask(1, 0), ask(9, 0)).strict(), "cd c c", Fits},
		{"a third finds none left", cards(9, 9, 9, 9).numa("0011"),
			pod("IAAA", devices(2, 1, 0), ask(9, 0), ask(9, 0), ask(9, 0)).strict(), "ab a b c", Fits},
		{"two chains", cards(20, 11).numa("01"), pod("ISIA", ask(16, 0), ask(10, 0), ask(5, 0), ask(11, 0)).strict(),
			"a a b b", Fits},
		{"no NUMA node has so many", cards(9, 9).numa("01"), pod("IA", ask(5, 0), devices(2, 5, 0)).strict(), "a ab",
			Fits},
		{"the app goes where there is room for the init", cards(20, 20).numa("01").with(0, 15, 0).with(1, 3, 0),
			pod("SIA", ask(1, 0), ask(17, 0), ask(3, 0)).strict().spread(), "a b b", Fits},
		{"where the pod's peak is least, though it is emptier", cards(10, 10, 10).numa("001").with(0, 0, 80).with(1,
			5, 0), pod("IA", ask(9, 0), ask(4, 50)).strict(), "c c", Fits},
		{"then by the policy", cards(20, 20).numa("01").with(1, 5, 0), pod("IA", ask(5, 0), ask(5, 0)).strict(),
			"b b", Fits},
		{"by the other policy", cards(20, 20).numa("01").with(0, 5, 0),
			pod("IA", ask(5, 0), ask(5, 0)).strict().spread(), "b b", Fits},
		{"not free together", cards(20, 10).numa("01").with(0, 1, 0),
			pod("ISA", ask(11, 0), ask(5, 0), ask(15, 0)).strict(), "", NotAligned},
		{"they never were", cards(20, 10).numa("01"), pod("ISA", ask(20, 0), ask(6, 0), ask(15, 0)).strict(), "",
			NotOnOneNUMANode},
		{"another reason first", cards(20, 10).numa("01").with(0, 15, 0), pod("IA", ask(20, 0), ask(1, 0)).strict(),
			"", NoMemory},
		{"in MIG mode it is no device of kubelet's", cards(9, 9, 9).numa("011").but(2, mig),
			pod("IA", ask(5, 0), devices(2, 5, 0)).strict(), "a ab", Fits},
		{"another family is not concerned", cards(9, 9).numa("01").but(1, onAMD), pod("IA", ask(5, 0), amd).strict(),
			"a b", CapacityTooSmall},
		{"without NUMA nodes there is nothing to keep to", cards(9, 9).numa("00"),
			pod("IA", ask(9, 0), ask(5, 0)).strict().spread(), "a a", Fits},

		// Which of several.
		{"binpack: the fullest that fits", cards(16384, 16384, 16384).with(1, 5000, 0).with(2, 16000, 0),
			pod("A", ask(1000, 0)), "b", Fits},
		{"spread: the emptiest", cards(16384, 16384, 16384).with(0, 100, 0).with(1, 5000, 0),
			pod("A", ask(1000, 0)).spread(), "c", Fits},
		{"binpack: together", cards(16384, 16384), pod("AA", ask(1000, 0), ask(1000, 0)), "a a", Fits},
		{"spread: apart", cards(16384, 16384), pod("AA", ask(1000, 0), ask(1000, 0)).spread(), "a b", Fits},
		{"lowest index", cards(16384, 16384, 16384).but(0, func(d *device.Device) { d.Index = 7 }),
			pod("A", ask(1000, 0)), "b", Fits},
		{"then the place in the list", cards(9, 9, 9).with(2, 5, 0).but(1,
			func(d *device.Device) { d.Index = 0 }).but(2, func(d *device.Device) { d.Index = 0 }),
			pod("A", devices(3, 1, 0)), "cab", Fits},
		{"the init goes where its app is", cards(16384, 16384, 16384).with(0, 3000, 0),
			pod("IA", ask(8000, 0), ask(14000, 0)), "b b", Fits},
		{"even when spreading", cards(16384, 16384), pod("IIA", ask(8000, 0), ask(8000, 0), ask(10000, 0)).spread(),
			"a a a", Fits},
		{"the init goes where its app is not when there is no room", cards(16384, 16384).with(0, 8000, 0),
			pod("SIA", ask(6000, 0), ask(9000, 0), ask(2000, 0)), "a b a", Fits},
		{"the second init goes where the first raised the peak", cards(9000, 9000).with(0, 3000, 0),
			pod("IIA", ask(8000, 0), ask(5000, 0), ask(2000, 0)), "b b a", Fits},

		// Greedy alone would not do.
		{"the big one needs the card that the small one likes", cards(10, 20), pod("AA", ask(10, 0), ask(15, 0)),
			"a b", Fits},
		{"the same the other way round", cards(20, 10), pod("AA", ask(10, 0), ask(15, 0)), "b a", Fits},
		{"a sidecar makes way for an init", cards(20, 10), pod("SIA", ask(5, 0), ask(20, 0), none), "b a -", Fits},
		{"apart though each fits", cards(10, 10).with(0, 5, 0).with(1, 5, 0),
			pod("AAA", ask(4, 0), ask(4, 0), ask(4, 0)), "", NoMemory},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, reason := Fit(test.node, test.pod)
			if reason != test.reason || reason == Fits && uuids(got) != test.want {
				t.Errorf("got %q, %q; want %q, %q", uuids(got), reason, test.want, test.reason)
			}
			if reason == Fits && !valid(test.node, test.pod, got, 0) {
				t.Errorf("%v breaks a rule", got)
			}
		})
	}
}

// TestFitGivesAmounts: a share is one slot, the card's own MiB, and the cores asked for.
func TestFitGivesAmounts(t *testing.T) {
	n := cards(40960, 24576)
	p := pod("IA", ask(1000, 30), percent(50, 2))
	a, reason := Fit(n, p)
	if reason != Fits {
		t.Fatal(reason)
	}
	if got, want := a[0][0], on("a", 1000, 30); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := [2]device.Share{a[1][0], a[1][1]}, [2]device.Share{on("a", 20480, 0),
		on("b", 12288, 0)}; got != want {
		t.Errorf("percent of unlike cards: got %v, want %v", got, want)
	}
}

// Once an exclusive init container is over, another pod fits beside the app.
func TestBesideTheAppOfAnExclusiveInit(t *testing.T) {
	n := cards(16384)
	app := device.Usage{Amount: device.Amount{Slots: 1, MemoryMiB: 1000, Cores: 30}}
	other := pod("A", ask(1000, 60))
	n.Held[0] = device.Usage{Amount: device.Amount{Slots: 1, MemoryMiB: 1000, Cores: 100}, Exclusive: true}
	if _, r := Fit(n, other); r != Exclusive {
		t.Errorf("while the init runs: got %q, want %q", r, Exclusive)
	}
	n.Held[0] = app
	if _, r := Fit(n, other); r != Fits {
		t.Errorf("afterwards: got %q", r)
	}
}

func TestCheck(t *testing.T) {
	p := pod("IA", ask(3000, 0), ask(2000, 0))
	a := device.Allocation{{on("a", 3000, 0)}, {on("b", 2000, 0)}}
	tests := []struct {
		name string
		node Node
		pod  *Pod
		a    device.Allocation
		from int
		want Reason
	}{
		{"as decided", cards(4000, 4000), p, a, 0, Fits},
		{"a card is gone", cards(4000), p, a, 0, UnknownDevice},
		{"the init's card is gone but the init is over", cards(4000, 4000).but(0,
			func(d *device.Device) { d.UUID = "z" }), p, a, 1, Fits},
		{"somebody came", cards(4000, 4000).with(1, 2001, 0), p, a, 0, NoMemory},
		{"somebody came to the init's card", cards(4000, 4000).with(0, 1001, 0), p, a, 0, NoMemory},
		{"and the init is over", cards(4000, 4000).with(0, 1001, 0), p, a, 1, Fits},
		{"unhealthy meanwhile", cards(4000, 4000).but(1, func(d *device.Device) { d.Healthy = false }), p, a, 0,
			Unhealthy},
		{"cordoned meanwhile", cards(4000, 4000).but(1, func(d *device.Device) { d.Cordoned = true }), p, a, 0,
			Cordoned},
		{"MIG meanwhile", cards(4000, 4000).but(1, func(d *device.Device) { d.Mode = device.MIG }), p, a, 0, InMIGMode},
		{"not selected", cards(4000, 4000), pod("IA", ask(3000, 0),
			ask(2000, 0)).selecting(Selector{AvoidUUIDs: []string{"b"}}), a, 0, NotSelected},
		{"another family", cards(4000, 4000).but(1, func(d *device.Device) { d.Family = "AMD" }), p, a, 0, OtherFamily},
		{"other amount", cards(4000, 4000), p, device.Allocation{{on("a", 3000, 0)}, {on("b", 2001, 0)}}, 0, Mismatch},
		{"a percentage of a card that has grown", cards(4000), pod("A", percent(50, 1)),
			device.Allocation{{on("a", 1000, 0)}}, 0, Mismatch},
		{"one device twice", cards(4000, 4000), pod("A", devices(2, 100, 0)),
			device.Allocation{{on("a", 100, 0), on("a", 100, 0)}}, 0, Mismatch},
		{"too few devices", cards(4000, 4000), p, device.Allocation{{on("a", 3000, 0)}, nil}, 0, Mismatch},
		{"too many entries", cards(4000, 4000), p, append(a[:2:2], []device.Share{on("a", 1, 0)}), 0, Mismatch},
		{"too few entries", cards(4000, 4000), p, a[:1], 0, Mismatch},
		{"two NUMA nodes", cards(4000, 4000).numa("01"), pod("A", devices(2, 100, 0)).bound(),
			device.Allocation{{on("a", 100, 0), on("b", 100, 0)}}, 0, NotOnOneNUMANode},
		{"strict, and the app is not where its ids will be", cards(4000, 4000).numa("01"),
			pod("IA", ask(3000, 0), ask(2000, 0)).strict(), a, 0, NotAligned},
		{"strict, and it is", cards(4000, 4000).numa("11"), pod("IA", ask(3000, 0), ask(2000, 0)).strict(), a, 0, Fits},
		{"sidecar and app together", cards(4000), pod("SA", ask(3000, 0), ask(2000, 0)),
			device.Allocation{{on("a", 3000, 0)}, {on("a", 2000, 0)}}, 0, NoMemory},
		{"init and app together", cards(4000), p, device.Allocation{{on("a", 3000, 0)}, {on("a", 2000, 0)}}, 0, Fits},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Check(test.node, test.pod, test.a, test.from); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestScore: the mean fullness, over slots, memory and cores, of the devices used, at the pod's peak.
func TestScore(t *testing.T) {
	n := cards(1000, 1000, 1000).with(0, 500, 40) // a: 1 of 10 slots, 500 of 1000 MiB, 40 of 100 %
	p := pod("IA", ask(300, 20), ask(100, 50))
	onA := device.Allocation{{on("a", 300, 20)}, {on("a", 100, 50)}}
	full := (2.0/10 + 800.0/1000 + 90.0/100) / 3
	if got := Score(n, p, onA); !near(got, full) {
		t.Errorf("binpack: got %v, want %v", got, full)
	}
	p.NodePolicy = Spread
	if got := Score(n, p, onA); !near(got, 1-full) {
		t.Errorf("spread: got %v, want %v", got, 1-full)
	}
	p.NodePolicy = Binpack
	onAB := device.Allocation{{on("a", 300, 20)}, {on("b", 100, 50)}}
	want := ((2.0/10 + 800.0/1000 + 60.0/100) + (1.0/10 + 100.0/1000 + 50.0/100)) / 6
	if got := Score(n, p, onAB); !near(got, want) {
		t.Errorf("two devices: got %v, want %v", got, want)
	}
	if got := Score(n, pod("A", device.Request{}), device.Allocation{nil}); got != 0 {
		t.Errorf("no devices: got %v", got)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestReasons: each has a sentence of its own, and those that no eviction cures are told apart.
func TestReasons(t *testing.T) {
	seen := map[string]Reason{}
	for r := Fits; r < reasons; r++ {
		if other, ok := seen[r.String()]; ok || r.String() == "" {
			t.Errorf("reasons %d and %d are both %q", r, other, r)
		}
		seen[r.String()] = r
	}
	if reasons.String() != "Unknown reason" {
		t.Errorf("got %q for a reason that does not exist", reasons)
	}
	for _, r := range []Reason{Fits, NoSlots, NoMemory, Exclusive, NoCores, Fragmented} {
		if r.Unresolvable() {
			t.Errorf("%q can pass", r)
		}
	}
	for _, r := range []Reason{Mismatch, NoDevices, TooFewDevices, NotSelected, InMIGMode, Unhealthy, Cordoned,
		CapacityTooSmall, NotOnOneNUMANode} {
		if !r.Unresolvable() {
			t.Errorf("%q cannot pass", r)
		}
	}
}

// TestScratchAllocatesNothing, whether the pod fits, is refused, or has to be searched for.
func TestScratchAllocatesNothing(t *testing.T) {
	var s Scratch
	for name, n := range map[string]Node{"fits": benchNode(0), "refused": benchNode(30000), "none": {}} {
		p := benchPod()
		if got := testing.AllocsPerRun(100, func() { s.Fit(n, p); s.Rate(n, p) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	n, p := hardest()
	if got := testing.AllocsPerRun(10, func() { s.Fit(n, p) }); got != 0 {
		t.Errorf("searched: %v allocations", got)
	}
	for name, n := range map[string]Node{"fits": benchNode(0), "refused": benchNode(30000)} {
		p := benchPod().strict()
		if got := testing.AllocsPerRun(10, func() { s.Fit(n, p) }); got != 0 {
			t.Errorf("strict, %s: %v allocations", name, got)
		}
	}
}
