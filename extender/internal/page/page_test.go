package page

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
		{UUID: "G1", Family: "NVIDIA", Index: 1, Cordoned: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100}},
	}})
	book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000}}})
	share := func(uuid string, mib int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: 10}}}
	}
	pod := func(name string, a device.Allocation) ledger.Pod {
		return ledger.Pod{UID: name + "-uid", Namespace: "ns", Name: name, Node: "n1", Classes: phase.Pod{phase.Init, phase.App}, Allocation: a}
	}
	book.Observe(pod("b", device.Allocation{share("G0", 9000), share("G9", 500)}))
	book.Observe(pod("a", device.Allocation{share("G0", 4000), share("G0", 5000)}))
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
	got, err := json.MarshalIndent(Read(41, books(t), gates), "", "  ")
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

func TestMetrics(t *testing.T) {
	book := books(t)
	states := []gate.State{{Node: "n1", Waiting: 2, Shut: 3 * time.Second}}
	c := &Collector{Book: book, Gates: func() []gate.State { return states }, Waiting: func() int { return 5 }}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	const over = `
# HELP phasegpu_device_overcommitted_mebibytes Memory reserved beyond a device's own: containers ran again after it went to others. Only devices where it is above 0.
# TYPE phasegpu_device_overcommitted_mebibytes gauge
phasegpu_device_overcommitted_mebibytes{node="n1",uuid="G0"} 4000
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(over), "phasegpu_device_overcommitted_mebibytes"); err != nil {
		t.Error(err)
	}
	const quota = `
# HELP phasegpu_quota_used What counts against a ResourceQuota's key, in MiB for memory and percent for cores.
# TYPE phasegpu_quota_used gauge
phasegpu_quota_used{namespace="ns",quota="q",resource="limits.nvidia.com/gpumem"} 15000
# HELP phasegpu_gate_shut_seconds How long a node's gate has been shut: kubelet has not reported on the pod inside.
# TYPE phasegpu_gate_shut_seconds gauge
phasegpu_gate_shut_seconds{node="n1"} 3
# HELP phasegpu_refused_pods Refused pods that will be woken when there is room.
# TYPE phasegpu_refused_pods gauge
phasegpu_refused_pods 5
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(quota), "phasegpu_quota_used", "phasegpu_gate_shut_seconds", "phasegpu_refused_pods"); err != nil {
		t.Error(err)
	}
	// Case 51: a series ends with its object.
	for _, p := range book.Pods() {
		if _, err := book.Forget(p.UID); err != nil {
			t.Fatal(err)
		}
	}
	book.RemoveNode("n1")
	book.RemoveQuota("ns", "q")
	states = nil
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if len(f.GetMetric()[0].GetLabel()) > 0 {
			t.Errorf("%s is still there: %v", f.GetName(), f.GetMetric())
		}
	}
}
