package placement

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

func names(position int) string { return []string{"prep", "mesh", "main"}[position] }

// A report has numbers for each device and phase.
func TestExplainSaysWhichPhase(t *testing.T) {
	n := cards(24576, 24576).with(0, 8192, 20).with(1, 4096, 0)
	p := pod("ISA", ask(20480, 0), ask(2048, 0), ask(22000, 30))
	e := Explain(n, p)
	if e.Reason != NoMemory || len(e.Containers) != 3 {
		t.Fatalf("got %q with %d containers", e.Reason, len(e.Containers))
	}
	want := ContainerReport{
		Position: 2, Class: p.Classes[2], Request: p.Requests[2], Reason: NoMemory,
		Devices: []DeviceReport{
			{UUID: "a", Reason: NoMemory, Capacity: n.Devices[0].Capacity, Held: n.Held[0],
				Asked:  on("", 22000, 30).Amount,
				Phases: []PhaseReport{{Phase: 1, InitPosition: -1, Own: on("", 2048, 0).Amount, Reason: NoMemory}}},
			{UUID: "b", Reason: NoMemory, Capacity: n.Devices[1].Capacity, Held: n.Held[1],
				Asked:  on("", 22000, 30).Amount,
				Phases: []PhaseReport{{Phase: 1, InitPosition: -1, Reason: NoMemory}}},
		},
	}
	if got := e.Containers[2]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, want := e.Sentence(names), "Insufficient GPU memory in the pod's phases: app container main asks for 1 × NVIDIA (22000 MiB, 30% cores); "+
		"devices: 2 Insufficient GPU memory in the pod's phases; "+
		"nearest is b, in the steady state: 22000 MiB asked, 0 held by the pod's other containers, 4096 by other pods, of 24576"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestExplainSentences(t *testing.T) {
	tests := []struct {
		name string
		node Node
		pod  *Pod
		want string
	}{
		{"no devices", Node{}, pod("A", ask(1, 0)),
			"No GPU of the requested family: app container prep asks for 1 × NVIDIA (1 MiB, no limit on cores); the node has no devices"},
		{"an init beside a sidecar", cards(24576).with(0, 2000, 0), pod("SI", ask(10000, 0), ask(20000, 0)),
			"GPUs too small for the pod's phases: init container mesh asks for 1 × NVIDIA (20000 MiB, no limit on cores); " +
				"devices: 1 Insufficient GPU memory in the pod's phases; " +
				"nearest is a, while init container mesh runs: 20000 MiB asked, 10000 held by the pod's other containers, 2000 by other pods, of 24576"},
		{"too small", cards(16384), pod("A", percent(100, 2)),
			"Too few GPUs of the requested family: app container prep asks for 2 × NVIDIA (100% of memory, no limit on cores); devices: 1 Fits"},
		{"capacity", cards(16384), pod("A", ask(20000, 0)),
			"GPUs too small for the pod's phases: app container prep asks for 1 × NVIDIA (20000 MiB, no limit on cores); " +
				"devices: 1 GPUs too small for the pod's phases; a has 10 slots, 16384 MiB, 100% cores, asked of it 1 slots, 20000 MiB, 0% cores"},
		{"cores", cards(16384).with(0, 0, 60), pod("A", ask(0, 50)),
			"Insufficient GPU cores in the pod's phases: app container prep asks for 1 × NVIDIA (all memory, 50% cores); " +
				"devices: 1 Insufficient GPU cores in the pod's phases; " +
				"nearest is a, in the steady state: 50 % cores asked, 0 held by the pod's other containers, 60 by other pods, of 100"},
		{"exclusive", cards(16384).with(0, 0, 60), pod("A", ask(0, 100)),
			"GPUs in exclusive use or not free for it: app container prep asks for 1 × NVIDIA (all memory, 100% cores); " +
				"devices: 1 GPUs in exclusive use or not free for it; " +
				"nearest is a, in the steady state: 1 slots (whole cores are not shared) asked, 0 held by the pod's other containers, 1 by other pods, of 10"},
		{"cordoned", cards(16384, 16384).but(1, func(d *device.Device) { d.Cordoned = true }).but(0,
			func(d *device.Device) { d.Healthy = false }), pod("A", ask(0, 100)),
			"Cordoned GPUs: app container prep asks for 1 × NVIDIA (all memory, 100% cores); devices: 1 Unhealthy GPUs, 1 Cordoned GPUs"},
		{"strict", cards(20000, 10000).numa("01").with(0, 1, 0), pod("ISA", ask(11000, 0), ask(5000, 0),
			ask(15000, 0)).strict(),
			"Insufficient GPUs on one NUMA node for containers that inherit device ids: init container prep asks for 1 × NVIDIA (11000 MiB, no limit on cores); " +
				"devices: 1 GPUs too small for the pod's phases, 1 Insufficient GPUs on one NUMA node for containers that inherit device ids"},
		{"fits", cards(16384), pod("A", ask(1, 0)), "Fits"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Explain(test.node, test.pod).Sentence(names); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestExplainAgreesWithFit: the numbers and the verdict are the same thing said twice.
func TestExplainAgreesWithFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 5000 {
		n := randomNode(r, 1+r.IntN(4))
		p := randomPod(r, 4, n)
		a, reason := Fit(n, p)
		e := Explain(n, p)
		if e.Reason != reason || !reflect.DeepEqual(normal(e.Allocation), normal(a)) {
			t.Fatalf("Fit %q %v, Explain %q %v", reason, a, e.Reason, e.Allocation)
		}
		failed := false
		for _, c := range e.Containers {
			failed = failed || c.Reason != Fits
			for _, d := range c.Devices {
				exceeds := false
				for _, k := range d.Phases {
					total := sumOf(d.Held.Amount, k.Own, d.Asked)
					if k.Reason == Fits && !total.Within(d.Capacity) {
						t.Fatalf("says that %v is within %v\n%+v", total, d.Capacity, d)
					}
					exceeds = exceeds || k.Reason != Fits
				}
				if d.Reason == Fits && exceeds || d.Reason > NotOnOneNUMANode && d.Reason != NotAligned && !exceeds {
					t.Fatalf("%q, but by phase %+v", d.Reason, d.Phases)
				}
			}
		}
		if failed == (reason == Fits) {
			t.Fatalf("%q, but by container %+v", reason, e.Containers)
		}
		if s := e.Sentence(func(int) string { return "c" }); (s == "Fits") != (reason == Fits) {
			t.Fatalf("%q, but %s", reason, s)
		}
	}
}

func sumOf(amounts ...device.Amount) device.Amount {
	var total device.Amount
	for _, a := range amounts {
		total = device.Amount{Slots: total.Slots + a.Slots, MemoryMiB: total.MemoryMiB + a.MemoryMiB,
			Cores: total.Cores + a.Cores}
	}
	return total
}
