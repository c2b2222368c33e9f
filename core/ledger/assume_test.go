package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

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

func mustAssume(t *testing.T, b *Book, p Pod, place func(*View) (device.Allocation, error)) {
	t.Helper()
	if _, _, err := b.Assume(p, place); err != nil {
		t.Fatal(err)
	}
}

func TestAssumption(t *testing.T) {
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
	if want := (Delta{Node: "n2", Left: "n1", Namespace: "ns", Changed: true, Released: true,
		Raised: true}); err != nil || d != want {
		t.Errorf("delta %+v, %v, want %+v", d, err, want)
	}
	memory(t, b, "n1", "G1", 0)
	memory(t, b, "n2", "G2", 12000)

	// Refused for good: nothing stays, and a label update brings nothing back.
	if d := b.Unassume("p"); !d.Released {
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
	if d := b.Unassume("p"); d.Changed {
		t.Errorf("withdrawal of a bound pod: %+v", d)
	}
	b.Observe(unbound) // no pod leaves its node
	memory(t, b, "n2", "G2", 3000)
	if _, _, err := b.Assume(p, put("G1", 1, p.Classes)); !errors.Is(err, ErrBound) || !strings.Contains(err.Error(),
		"n2") {
		t.Errorf("error %v, want ErrBound naming n2", err)
	}

	// Deletion and a terminal phase end an assumption.
	for uid, end := range map[string]func(){
		"deleted": func() {
			if _, err := b.Remove("deleted"); err != nil {
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
		_, d, err := b.Assume(pod("p", test.node, phase.Pod{a}), func(*View) (device.Allocation,
			error) {
			return test.place, nil
		})
		if err == nil || !strings.Contains(err.Error(), test.want) || d.Changed || b.Pod("p") != nil {
			t.Errorf("%s: error %v, want %q and nothing booked", test.node, err, test.want)
		}
	}
}
