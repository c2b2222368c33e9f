package gauge

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// books has a device with two pods that need more than it has, and a quota.
func books() *ledger.Book {
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "n1", Devices: []device.Device{
		{UUID: "G0", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100}},
	}})
	book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000}}})
	for name, mib := range map[string]int64{"a": 5000, "b": 9000} {
		share := device.Share{UUID: "G0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: 10}}
		book.Observe(ledger.Pod{UID: name, Namespace: "ns", Name: name, Node: "n1", Classes: phase.Pod{phase.App}, Allocation: device.Allocation{{share}}})
	}
	return book
}

func TestMetrics(t *testing.T) {
	book := books()
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
phasegpu_quota_used{namespace="ns",quota="q",resource="limits.nvidia.com/gpumem"} 14000
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
