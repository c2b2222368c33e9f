package ledger

import (
	"errors"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

const (
	i = phase.Init
	s = phase.Sidecar
	a = phase.App
)

// on is one container's share: that many MiB of an NVIDIA device.
func on(uuid string, memory int64) []device.Share {
	return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memory}}}
}

// pod is a bound pod in namespace ns in its first phase.
func pod(uid, node string, classes phase.Pod, shares ...[]device.Share) Pod {
	return Pod{UID: uid, Namespace: "ns", Name: uid, Node: node, Classes: classes, Allocation: shares}
}

func at(p Pod, first int) Pod {
	p.First = first
	return p
}

// node has one card of that many MiB for each UUID.
func node(name string, memory int64, uuids ...string) Node {
	n := Node{Name: name}
	for i, uuid := range uuids {
		n.Devices = append(n.Devices, device.Device{
			UUID: uuid, Index: i, Family: "NVIDIA", Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: memory, Cores: 100},
		})
	}
	return n
}

// memory fails the test unless the device of the node is held by that much.
func memory(t *testing.T, b *Book, node, uuid string, want int64) {
	t.Helper()
	v := b.Node(node)
	got := int64(0)
	if i := v.index(uuid); i >= 0 {
		got = v.Held[i].MemoryMiB
	} else if v != nil {
		got = v.Missing[uuid].MemoryMiB
	}
	if got != want {
		t.Errorf("%s on %s: %d MiB are held, want %d", uuid, node, got, want)
	}
}

// charged fails the test unless the namespace is charged that much memory.
func charged(t *testing.T, b *Book, want int64) {
	t.Helper()
	got := int64(0)
	if n := b.Namespace("ns"); n != nil {
		for _, u := range n.Used {
			got += u.MemoryMiB
		}
	}
	if got != want {
		t.Errorf("namespace is charged %d MiB, want %d", got, want)
	}
}

func TestChargeFollowsPhases(t *testing.T) {
	b := New()
	b.SetNode(node("n", 24576, "G0", "G1"))
	p := pod("p", "n", phase.Pod{i, i, a}, on("G0", 20000), on("G0", 8000), on("G1", 5000))
	for _, step := range []struct {
		first      int
		g0, g1, ns int64
		released   bool
		raised     bool
	}{
		{first: 0, g0: 20000, g1: 5000, ns: 20000, raised: true},
		{first: 1, g0: 8000, g1: 5000, ns: 8000, released: true},
		{first: 2, g0: 0, g1: 5000, ns: 5000, released: true},
		{first: 0, g0: 20000, g1: 5000, ns: 20000, raised: true}, // the sandbox was recreated
		{first: phase.None, released: true},
	} {
		d := b.Observe(at(p, step.first))
		if want := (Delta{Node: "n", Namespace: "ns", Changed: true, Released: step.released,
			Raised: step.raised}); d != want {
			t.Errorf("phase %d: delta %+v, want %+v", step.first, d, want)
		}
		memory(t, b, "n", "G0", step.g0)
		memory(t, b, "n", "G1", step.g1)
		charged(t, b, step.ns)
		if d := b.Observe(at(p, step.first)); d.Changed {
			t.Errorf("phase %d: observing twice changed the books: %+v", step.first, d)
		}
	}
}

func TestRerunWithoutRoomShowsTrueSum(t *testing.T) {
	b := New()
	b.SetNode(node("n", 24576, "G"))
	p1 := pod("p1", "n", phase.Pod{i, a}, on("G", 20000), on("G", 5000))
	b.Observe(at(p1, 1))
	b.Observe(pod("p2", "n", phase.Pod{a}, on("G", 15000)))
	memory(t, b, "n", "G", 20000)
	b.Observe(at(p1, 0))
	memory(t, b, "n", "G", 35000)
	over := b.Node("n").OverCommitted()
	if len(over) != 1 || over[0].UUID != "G" || over[0].Held.MemoryMiB != 35000 || over[0].Capacity.MemoryMiB != 24576 {
		t.Errorf("over-committed devices: %+v", over)
	}
	if _, err := b.Remove("p2"); err != nil {
		t.Error(err)
	}
	memory(t, b, "n", "G", 20000)
	if over := b.Node("n").OverCommitted(); over != nil {
		t.Errorf("over-committed devices: %+v", over)
	}
}

func TestReleases(t *testing.T) {
	b := New()
	b.SetNode(node("n", 40000, "G"))
	p := pod("p", "n", phase.Pod{a}, on("G", 20000))
	b.Observe(p)
	b.Observe(pod("q", "n", phase.Pod{a}, on("G", 15000)))
	// Deleted with 600 s of grace and running: the facts are the same, so is the charge.
	b.Observe(p)
	memory(t, b, "n", "G", 35000)
	b.Observe(at(p, phase.None))
	if d := b.Observe(at(p, phase.None)); d.Changed {
		t.Error("a second Succeeded changed the books")
	}
	if d, err := b.Remove("p"); err != nil || d.Released {
		t.Errorf("deletion of an ended pod: %+v, %v", d, err)
	}
	memory(t, b, "n", "G", 15000)
	if _, err := b.Remove("p"); !errors.Is(err, ErrUnknown) {
		t.Errorf("releasing twice: %v, want ErrUnknown", err)
	}
	memory(t, b, "n", "G", 15000)
	if got := b.Stats().UnknownReleases; got != 1 {
		t.Errorf("%d unknown releases are counted, want 1", got)
	}
}

func TestLateAndDuplicateFacts(t *testing.T) {
	b := New()
	b.SetNode(node("n", 40000, "G"))
	versions := func(order ...uint64) {
		for _, v := range order {
			p := pod("p", "n", phase.Pod{i, a}, on("G", 20000), on("G", 5000))
			p.Version = v
			if v >= 30 {
				p.First = 1
			}
			b.Observe(p)
		}
	}
	versions(30, 10, 20, 30, 10, 30, 20)
	memory(t, b, "n", "G", 5000)
	if got := b.Stats().LateFacts; got != 4 {
		t.Errorf("%d late facts are counted, want 4", got)
	}
	if _, err := b.Remove("p"); err != nil {
		t.Error(err)
	}
	// A list without the pod, then what a watch that is behind the list still says of it.
	b.Replace(nil, 40)
	versions(20, 30)
	if b.Pod("p") != nil {
		t.Error("an observation older than the list brought back a pod that the list had not")
	}
	versions(41)
	memory(t, b, "n", "G", 5000)
	// A newer list has it, at a version that was late before.
	late := pod("late", "n", phase.Pod{a}, on("G", 70))
	late.Version = 39
	b.Observe(late)
	memory(t, b, "n", "G", 5000)
	b.Replace([]Pod{late}, 45)
	memory(t, b, "n", "G", 70)
}

func TestReplaceIsTheWholeTruth(t *testing.T) { // a watch gap
	b := New()
	b.SetNode(node("n", 40000, "G"))
	b.Observe(pod("gone", "n", phase.Pod{a}, on("G", 1000)))
	kept := pod("kept", "n", phase.Pod{i, a}, on("G", 4000), on("G", 2000))
	kept.Version = 50
	b.Observe(at(kept, 1))
	mustAssume(t, b, pod("assumed", "n", phase.Pod{a}), put("G", 100, phase.Pod{a}))
	kept.Version = 7 // the list rules, whatever the book had
	if got := b.Replace([]Pod{kept, pod("new", "n", phase.Pod{a}, on("G", 20))}, 60); len(got) != 3 {
		t.Errorf("%d deltas, want 3: %+v", len(got), got)
	}
	memory(t, b, "n", "G", 4000+100+20)
	charged(t, b, 4000+100+20)
}

func TestEachDifferenceIsAChange(t *testing.T) {
	base := pod("p", "n", phase.Pod{i, a, a}, on("G", 100), on("G", 50), on("G", 50))
	for k, cores := range []int64{device.WholeCores, 50, 50} {
		base.Allocation[k][0].Amount.Cores = cores
	}
	for name, test := range map[string]struct {
		change func(*Pod)
		want   Delta
	}{
		"exclusivity alone": {func(p *Pod) { p.First = 1 }, Delta{Node: "n", Changed: true, Released: true}},
		"scope": {func(p *Pod) { p.Scope.Terminating = true },
			Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"unreadable": {func(p *Pod) { p.Unreadable = "garbage" },
			Delta{Node: "n", Changed: true, Raised: true}},
		"node": {func(p *Pod) { p.Node = "m" }, Delta{Node: "m", Left: "n", Changed: true,
			Released: true, Raised: true}},
		"device, same totals": {func(p *Pod) { p.Allocation = device.Allocation{on("H", 100), nil, nil} },
			Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"totals, same devices": {func(p *Pod) { p.Allocation[0][0].Family = "DCU" },
			Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"class": {func(p *Pod) { p.Classes = phase.Pod{s, i, a} },
			Delta{Node: "n", Changed: true, Raised: true}},
		"version alone":         {func(p *Pod) { p.Version = 7 }, Delta{}},
		"no node, behind":       {func(p *Pod) { p.Node = "" }, Delta{}},
		"no node, behind, over": {func(p *Pod) { p.Node, p.First = "", phase.None }, Delta{}},
	} {
		b := New()
		b.SetNode(node("n", 16384, "G", "H"))
		b.Observe(base)
		p := base
		p.Allocation = copyAllocation(base.Allocation, nil)
		test.change(&p)
		if test.want != (Delta{}) {
			test.want.Namespace = "ns"
		}
		if got := b.Observe(p); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestNamespaceAloneReleases(t *testing.T) { // both devices stay held, one after the other
	b := New()
	both := append(on("G", 100), on("H", 100)...)
	p := pod("p", "n", phase.Pod{i, i, i, a}, both, on("G", 100), on("H", 100), nil)
	b.Observe(p)
	charged(t, b, 200)
	if d, want := b.Observe(at(p, 1)), (Delta{Node: "n", Namespace: "ns", Changed: true, Released: true}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	charged(t, b, 100)
	memory(t, b, "n", "G", 100)
	memory(t, b, "n", "H", 100)
}
