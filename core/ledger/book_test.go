package ledger

import (
	"errors"
	"fmt"
	"strings"
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

// put always decides on the given allocation if the named device has room for its memory.
func put(uuid string, memory int64, classes phase.Pod) func(*View) (device.Allocation, error) {
	return func(v *View) (device.Allocation, error) {
		i := v.index(uuid)
		if i < 0 || v.Held[i].MemoryMiB+memory > v.Devices[i].Capacity.MemoryMiB {
			return nil, errNoRoom
		}
		out := make(device.Allocation, len(classes))
		for i := range out {
			out[i] = on(uuid, memory)
		}
		return out, nil
	}
}

var errNoRoom = errors.New("no room")

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
		if want := (Delta{Node: "n", Namespace: "ns", Changed: true, Released: step.released, Raised: step.raised}); d != want {
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

func TestRerunWithoutRoomShowsTrueSum(t *testing.T) { // case 19
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
	if _, err := b.Forget("p2"); err != nil {
		t.Error(err)
	}
	memory(t, b, "n", "G", 20000)
	if over := b.Node("n").OverCommitted(); over != nil {
		t.Errorf("over-committed devices: %+v", over)
	}
}

func TestReleases(t *testing.T) { // cases 21, 25, 30, 31
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
	if d, err := b.Forget("p"); err != nil || d.Released {
		t.Errorf("deletion of an ended pod: %+v, %v", d, err)
	}
	memory(t, b, "n", "G", 15000)
	if _, err := b.Forget("p"); !errors.Is(err, ErrUnknown) {
		t.Errorf("releasing twice: %v, want ErrUnknown", err)
	}
	memory(t, b, "n", "G", 15000)
	if got := b.Stats().UnknownReleases; got != 1 {
		t.Errorf("%d unknown releases are counted, want 1", got)
	}
}

func TestLateAndDuplicateFacts(t *testing.T) { // case 20
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
	if _, err := b.Forget("p"); err != nil {
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

func TestReplaceIsTheWholeTruth(t *testing.T) { // case 20, a watch gap
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

func mustAssume(t *testing.T, b *Book, p Pod, place func(*View) (device.Allocation, error)) {
	t.Helper()
	if _, _, err := b.Assume(p, place); err != nil {
		t.Fatal(err)
	}
}

func TestAssumption(t *testing.T) { // cases 22, 23, 29
	b := New()
	b.SetNode(node("n1", 16384, "G1"))
	b.SetNode(node("n2", 16384, "G2"))
	p := pod("p", "n1", phase.Pod{a})
	mustAssume(t, b, p, put("G1", 12000, p.Classes))
	memory(t, b, "n1", "G1", 12000)
	if !b.Pod("p").Assumed {
		t.Error("the entry does not say that it is assumed")
	}

	// The watch may be behind: a pod without a node ends nothing.
	unbound := p
	unbound.Node = ""
	b.Observe(unbound)
	memory(t, b, "n1", "G1", 12000)

	// A failed second attempt leaves the first, for which a Binding may be on its way.
	elsewhere := pod("p", "n2", phase.Pod{a})
	if _, _, err := b.Assume(elsewhere, put("G2", 20000, p.Classes)); !errors.Is(err, errNoRoom) {
		t.Errorf("error %v, want what place returned", err)
	}
	memory(t, b, "n1", "G1", 12000)

	// A second attempt elsewhere moves it whole.
	_, d, err := b.Assume(elsewhere, put("G2", 12000, p.Classes))
	if want := (Delta{Node: "n2", Left: "n1", Namespace: "ns", Changed: true, Released: true, Raised: true}); err != nil || d != want {
		t.Errorf("delta %+v, %v, want %+v", d, err, want)
	}
	memory(t, b, "n1", "G1", 0)
	memory(t, b, "n2", "G2", 12000)

	// Refused for good: nothing stays, and a label update brings nothing back.
	if d := b.Withdraw("p"); !d.Released {
		t.Errorf("withdrawal: %+v", d)
	}
	b.Observe(unbound)
	memory(t, b, "n1", "G1", 0)
	memory(t, b, "n2", "G2", 0)
	charged(t, b, 0)

	// An observation with a node replaces an assumption by what is recorded, and then is final.
	mustAssume(t, b, p, put("G1", 12000, p.Classes))
	b.Observe(pod("p", "n2", phase.Pod{a}, on("G2", 3000)))
	memory(t, b, "n1", "G1", 0)
	memory(t, b, "n2", "G2", 3000)
	if d := b.Withdraw("p"); d.Changed {
		t.Errorf("withdrawal of a bound pod: %+v", d)
	}
	b.Observe(unbound) // no pod leaves its node
	memory(t, b, "n2", "G2", 3000)
	if _, _, err := b.Assume(p, put("G1", 1, p.Classes)); !errors.Is(err, ErrBound) || !strings.Contains(err.Error(), "n2") {
		t.Errorf("error %v, want ErrBound naming n2", err)
	}

	// Deletion and a terminal phase end an assumption.
	for uid, end := range map[string]func(){
		"deleted": func() {
			if _, err := b.Forget("deleted"); err != nil {
				t.Error(err)
			}
		},
		"failed": func() { b.Observe(at(pod("failed", "", phase.Pod{a}), phase.None)) },
	} {
		mustAssume(t, b, pod(uid, "n1", phase.Pod{a}), put("G1", 500, p.Classes))
		end()
		if b.Pod(uid) != nil {
			t.Errorf("%s: the assumption stays", uid)
		}
	}
	memory(t, b, "n1", "G1", 0)
}

func TestPlaceSeesTheNodeWithoutThePod(t *testing.T) {
	b := New()
	b.SetNode(node("n", 16384, "G", "H"))
	b.Observe(pod("other", "n", phase.Pod{a}, on("G", 1000)))
	p := pod("p", "n", phase.Pod{a})
	mustAssume(t, b, p, put("G", 15000, p.Classes))
	mustAssume(t, b, p, put("G", 15384, p.Classes)) // fits only beside the other pod
	mustAssume(t, b, p, func(v *View) (device.Allocation, error) {
		if v.Held[0].MemoryMiB != 1000 {
			t.Errorf("place sees %+v", v.Held)
		}
		return device.Allocation{on("H", 7)}, nil
	})
	memory(t, b, "n", "G", 1000)
	memory(t, b, "n", "H", 7)
}

func TestAssumeRefusals(t *testing.T) {
	b := New()
	b.SetNode(Node{Name: "broken", Unreadable: "inventory: garbage"})
	b.Observe(pod("stray", "unknown", phase.Pod{a}, on("G", 1)))
	b.SetNode(node("n", 16384, "G"))
	for _, test := range []struct {
		node  string
		place device.Allocation
		want  string
	}{
		{"broken", nil, "inventory: garbage"},
		{"unknown", nil, `"unknown" is not known`},
		{"never heard of", nil, "not known"},
		{"n", device.Allocation{}, "0 entries for 1 containers"},
		{"n", device.Allocation{on("G", device.MaxMemoryMiB+1)}, "outside"},
		{"n", device.Allocation{on("G", -1)}, "-1 MiB"},
	} {
		_, d, err := b.Assume(pod("p", test.node, phase.Pod{a}), func(*View) (device.Allocation, error) { return test.place, nil })
		if err == nil || !strings.Contains(err.Error(), test.want) || d.Changed || b.Pod("p") != nil {
			t.Errorf("%s: error %v, want %q and nothing booked", test.node, err, test.want)
		}
	}
}

func TestMissingDevicesAndNodes(t *testing.T) { // case 26
	b := New()
	b.SetNode(node("n", 16384, "G0"))
	b.Observe(pod("p", "n", phase.Pod{a}, on("G9", 4000)))
	if got := b.Node("n").Missing; len(got) != 1 || got["G9"].MemoryMiB != 4000 {
		t.Errorf("missing devices: %v", got)
	}
	charged(t, b, 4000)
	if d := b.SetNode(node("n", 16384, "G0", "G9")); !d.Released || !d.Changed {
		t.Errorf("a device came: %+v", d)
	}
	if v := b.Node("n"); v.Held[1].MemoryMiB != 4000 || v.Missing != nil {
		t.Errorf("after its return: %+v", v)
	}
	b.RemoveNode("n")
	if v := b.Node("n"); v.Known || v.Missing["G9"].MemoryMiB != 4000 {
		t.Errorf("node gone: %+v", v)
	}
	b.SetNode(node("n", 16384, "G9"))
	memory(t, b, "n", "G9", 4000)
	if _, err := b.Forget("p"); err != nil {
		t.Error(err)
	}
	b.RemoveNode("n")
	if b.Node("n") != nil {
		t.Error("a node that nobody knows or uses stays in the book")
	}
}

func TestSetNodeDelta(t *testing.T) {
	base := node("n", 16384, "G")
	change := func(f func(*device.Device)) Node {
		n := node("n", 16384, "G")
		f(&n.Devices[0])
		return n
	}
	for name, test := range map[string]struct {
		to               Node
		changed, r, more bool
	}{
		"nothing":    {base, false, false, false},
		"unhealthy":  {change(func(d *device.Device) { d.Healthy = false }), true, false, true},
		"cordoned":   {change(func(d *device.Device) { d.Cordoned = true }), true, false, true},
		"larger":     {change(func(d *device.Device) { d.Capacity.MemoryMiB++ }), true, true, false},
		"smaller":    {change(func(d *device.Device) { d.Capacity.MemoryMiB-- }), true, false, true},
		"renamed":    {change(func(d *device.Device) { d.Model = "X" }), true, true, true},
		"one more":   {node("n", 16384, "G", "H"), true, true, false},
		"none":       {Node{Name: "n"}, true, false, true},
		"unreadable": {Node{Name: "n", Devices: base.Devices, Unreadable: "garbage"}, true, false, true},
	} {
		b := New()
		b.SetNode(base)
		if d, want := b.SetNode(test.to), (Delta{Node: "n", Changed: test.changed, Released: test.r, Raised: test.more}); d != want {
			t.Errorf("%s: %+v, want %+v", name, d, want)
		}
		if d, want := b.SetNode(base), (Delta{Node: "n", Changed: test.changed, Released: test.more, Raised: test.r}); d != want {
			t.Errorf("%s, back: %+v, want %+v", name, d, want)
		}
	}
}

func TestUnreadablePod(t *testing.T) { // case 27
	b := New()
	b.SetNode(node("n", 16384, "G0"))
	bad := pod("bad", "n", phase.Pod{a})
	bad.Unreadable = `annotation hami.io/vgpu-devices-allocated: "G0,abc,;"`
	b.Observe(bad)
	if got := b.Node("n").Unreadable; !strings.Contains(got, "ns/bad") || !strings.Contains(got, "G0,abc,;") {
		t.Errorf("the view says %q", got)
	}
	p := pod("p", "n", phase.Pod{a})
	if _, _, err := b.Assume(p, put("G0", 1, p.Classes)); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "ns/bad") {
		t.Errorf("error %v, want ErrNode naming ns/bad", err)
	}
	// Books of another pod are none the worse.
	b.Observe(pod("q", "n", phase.Pod{a}, on("G0", 5000)))
	memory(t, b, "n", "G0", 5000)

	bad.Unreadable = "worse"
	b.Observe(bad)
	if got := b.Node("n").Unreadable; !strings.HasSuffix(got, "worse") {
		t.Errorf("the view says %q", got)
	}

	b.Observe(at(bad, phase.None))
	if got := b.Node("n").Unreadable; got != "" {
		t.Errorf("after the pod's end the view says %q", got)
	}
	b.Observe(bad)
	good := pod("bad", "n", phase.Pod{a}, on("G0", 3000))
	if d := b.Observe(good); !d.Released || !d.Raised {
		t.Errorf("readable again: %+v", d)
	}
	memory(t, b, "n", "G0", 8000)
	mustAssume(t, b, p, put("G0", 1, p.Classes))
	// An allocation that does not match the pod is as unreadable.
	good.Allocation = device.Allocation{on("G0", 1), on("G0", 1)}
	b.Observe(good)
	if got := b.Node("n").Unreadable; !strings.Contains(got, "2 entries for 1 containers") {
		t.Errorf("the view says %q", got)
	}
	other := bad
	other.UID, other.Name = "worse", "worse"
	b.Observe(other)
	if got := b.Node("n").Unreadable; !strings.Contains(got, "ns/bad") || !strings.Contains(got, "1 more") {
		t.Errorf("the view says %q", got)
	}
}

func TestExclusiveWhileItsPhaseRemains(t *testing.T) { // case 9
	b := New()
	b.SetNode(node("n", 16384, "G"))
	p := pod("p", "n", phase.Pod{i, a}, on("G", 100), on("G", 100))
	p.Allocation[0][0].Amount.Cores = device.WholeCores
	p.Allocation[1][0].Amount.Cores = 30
	b.Observe(p)
	if h := b.Node("n").Held[0]; !h.Exclusive || h.Cores != 100 {
		t.Errorf("while the init remains: %+v", h)
	}
	if d := b.Observe(at(p, 1)); !d.Released {
		t.Errorf("delta %+v", d)
	}
	if h := b.Node("n").Held[0]; h.Exclusive || h.Cores != 30 {
		t.Errorf("in steady state: %+v", h)
	}
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
		"exclusivity alone":     {func(p *Pod) { p.First = 1 }, Delta{Node: "n", Changed: true, Released: true}},
		"scope":                 {func(p *Pod) { p.Scope.Terminating = true }, Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"unreadable":            {func(p *Pod) { p.Unreadable = "garbage" }, Delta{Node: "n", Changed: true, Raised: true}},
		"node":                  {func(p *Pod) { p.Node = "m" }, Delta{Node: "m", Left: "n", Changed: true, Released: true, Raised: true}},
		"device, same totals":   {func(p *Pod) { p.Allocation = device.Allocation{on("H", 100), nil, nil} }, Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"totals, same devices":  {func(p *Pod) { p.Allocation[0][0].Family = "DCU" }, Delta{Node: "n", Changed: true, Released: true, Raised: true}},
		"class":                 {func(p *Pod) { p.Classes = phase.Pod{s, i, a} }, Delta{Node: "n", Changed: true, Raised: true}},
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

func TestWithout(t *testing.T) {
	b := New()
	b.SetNode(node("n", 16384, "G"))
	p := pod("p", "n", phase.Pod{a}, on("G", 100))
	p.Allocation[0][0].Amount.Cores = device.WholeCores
	b.Observe(p)
	b.Observe(pod("q", "n", phase.Pod{a}, on("G", 20)))
	b.Observe(pod("r", "n", phase.Pod{a}, on("H", 3)))
	before := b.Node("n")
	v := before.Without("p", "r", "nobody")
	if v.Held[0].MemoryMiB != 20 || v.Held[0].Exclusive || v.Missing != nil || len(v.Pods) != 1 {
		t.Errorf("without p and r: %+v", v)
	}
	if before.Held[0].MemoryMiB != 120 || len(before.Pods) != 3 || len(before.Missing) != 1 {
		t.Errorf("the view itself changed: %+v", before)
	}
	if got := before.Without("nobody"); got != before {
		t.Error("a view without nobody is another view")
	}
	if got := b.Node("nowhere").Without("p"); got != nil {
		t.Errorf("an unknown node without a pod: %+v", got)
	}
}

func TestCallersKeepTheirSlices(t *testing.T) {
	b := New()
	n := node("n", 16384, "G")
	b.SetNode(n)
	p := pod("p", "n", phase.Pod{a}, on("G", 100))
	b.Observe(p)
	n.Devices[0].UUID = "X"
	p.Classes[0] = i
	p.Allocation[0][0].UUID = "X"
	p.Allocation[0][0].Amount.MemoryMiB = 7
	b.Observe(pod("q", "n", phase.Pod{a}, on("G", 20)))
	ended := at(pod("p", "n", phase.Pod{a}, on("G", 100)), phase.None)
	b.Observe(ended)
	ended.Classes[0] = i
	ended.Allocation[0][0].UUID = "X"
	if v := b.Node("n"); v.Devices[0].UUID != "G" || v.Held[0].MemoryMiB != 20 {
		t.Errorf("the view shares memory with its observer: %+v", v)
	}
	if e := b.Pod("p"); e.Classes[0] != a || e.Allocation[0][0].UUID != "G" {
		t.Errorf("the entry shares memory with its observer: %+v", e)
	}
}

func TestSnapshotsAreSorted(t *testing.T) {
	b := New()
	for _, name := range []string{"c", "a", "b"} {
		p := pod(name, name, phase.Pod{a}, on("G", 1))
		p.Namespace = name
		b.Observe(p)
	}
	var got string
	for _, e := range b.Pods() {
		got += e.Namespace
	}
	for _, v := range b.Nodes() {
		got += v.Name
	}
	for _, n := range b.Namespaces() {
		got += n.Name
	}
	if got != "abcabcabc" {
		t.Errorf("order %s", got)
	}
}

func TestGenerationGrowsWithChangesOnly(t *testing.T) {
	b := New()
	step := func(name string, grows bool, f func()) {
		t.Helper()
		before := b.Generation()
		f()
		if (b.Generation() > before) != grows {
			t.Errorf("%s: generation %d, then %d", name, before, b.Generation())
		}
	}
	p := pod("p", "n", phase.Pod{i, a}, on("G", 2), on("G", 1))
	step("node", true, func() { b.SetNode(node("n", 10, "G")) })
	step("same node", false, func() { b.SetNode(node("n", 10, "G")) })
	step("pod", true, func() { b.Observe(p) })
	step("same pod", false, func() { b.Observe(p) })
	step("phase", true, func() { b.Observe(at(p, 1)) })
	step("quota", true, func() { b.SetQuota(Quota{Namespace: "ns", Name: "q", Limits: []Limit{{Max: 1}}}) })
	step("same quota", false, func() { b.SetQuota(Quota{Namespace: "ns", Name: "q", Limits: []Limit{{Max: 1}}}) })
	step("no quota", true, func() { b.RemoveQuota("ns", "q") })
	step("no quota again", false, func() { b.RemoveQuota("ns", "q") })
	step("unknown release", false, func() { _, _ = b.Forget("x") })
	step("release", true, func() { _, _ = b.Forget("p") })
	if got, want := fmt.Sprint(b.Node("n").Generation), fmt.Sprint(b.Generation()); got != want {
		t.Errorf("the node's generation is %s, want %s", got, want)
	}
}
