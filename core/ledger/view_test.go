package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

func TestMissingDevicesAndNodes(t *testing.T) {
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
	if _, err := b.Remove("p"); err != nil {
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
		if d, want := b.SetNode(test.to), (Delta{Node: "n", Changed: test.changed, Released: test.r,
			Raised: test.more}); d != want {
			t.Errorf("%s: %+v, want %+v", name, d, want)
		}
		if d, want := b.SetNode(base), (Delta{Node: "n", Changed: test.changed, Released: test.more,
			Raised: test.r}); d != want {
			t.Errorf("%s, back: %+v, want %+v", name, d, want)
		}
	}
}

func TestUnreadablePod(t *testing.T) {
	b := New()
	b.SetNode(node("n", 16384, "G0"))
	bad := pod("bad", "n", phase.Pod{a})
	bad.Unreadable = `annotation hami.io/vgpu-devices-allocated: "G0,abc,;"`
	b.Observe(bad)
	if got := b.Node("n").Unreadable; !strings.Contains(got, "ns/bad") || !strings.Contains(got, "G0,abc,;") {
		t.Errorf("the view says %q", got)
	}
	p := pod("p", "n", phase.Pod{a})
	if _, _, err := b.Assume(p, put("G0", 1, p.Classes)); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(),
		"ns/bad") {
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

func TestExclusiveWhileItsPhaseRemains(t *testing.T) {
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
	step("unknown release", false, func() { _, _ = b.Remove("x") })
	step("release", true, func() { _, _ = b.Remove("p") })
	if got, want := fmt.Sprint(b.Node("n").Generation), fmt.Sprint(b.Generation()); got != want {
		t.Errorf("the node's generation is %s, want %s", got, want)
	}
}
