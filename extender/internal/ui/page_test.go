package ui

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// books has a node with an over-committed device and one that is missing, an assumed pod and a quota.
func books(t *testing.T) *ledger.Book {
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "n1", Devices: []device.Device{
		{UUID: "G0", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100}},
		{UUID: "G1", Family: "NVIDIA", Index: 1, Cordoned: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100}},
	}})
	book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q",
		Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000}}})
	share := func(uuid string, mib int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA",
			Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: 10}}}
	}
	pod := func(name string, a device.Allocation) ledger.Pod {
		return ledger.Pod{UID: name + "-uid", Namespace: "ns", Name: name, Node: "n1",
			Classes: phase.Pod{phase.Init, phase.App}, Allocation: a}
	}
	book.Observe(pod("b", device.Allocation{share("G0", 9000), share("G9", 500)}))
	steady := pod("a", device.Allocation{share("G0", 8000), share("G0", 5000)})
	steady.First = 1
	book.Observe(steady)
	if _, _, err := book.Assume(pod("c", nil), func(*ledger.View) (device.Allocation, error) {
		return device.Allocation{nil, share("G1", 1000)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	ended := pod("ended", device.Allocation{share("G0", 1), nil})
	ended.First = phase.None
	book.Observe(ended)
	return book
}

// The page's shape is what `kubectl phasegpu audit` reads: testdata/ledger.json.
func TestLedger(t *testing.T) {
	gates := []gate.State{
		{Node: "n2", Waiting: 3, Inside: []gate.Pod{{Name: "ns/z"}, {Name: "ns/a"}}, Shut: 1500 * time.Millisecond},
		{Node: "n1", Waiting: 1},
	}
	got, err := json.MarshalIndent(Read(41, phase.AllInits, books(t), gates), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/ledger.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Error(diff)
	}
}
