package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

func on(uuid string, mib, cores int64) []device.Share {
	return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: cores}}}
}

// books has a device with two pods that need more than it has, one of them before its init container, a
// second device on which cores alone are short, a third that takes nothing new, and a quota.
func books() *ledger.Book {
	book := ledger.New()
	card := func(index int, uuid string) device.Device {
		return device.Device{
			UUID: uuid, Index: index, Family: "NVIDIA", Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100},
		}
	}
	sick := card(2, "G2")
	sick.Healthy, sick.Cordoned, sick.Mode = false, true, device.MIG
	book.SetNode(ledger.Node{Name: "n1", Devices: []device.Device{card(0, "G0"), card(1, "G1"), sick}})
	book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000},
	}})
	apps, init := phase.Pod{phase.App}, phase.Pod{phase.Init, phase.App}
	for _, p := range []ledger.Pod{
		{UID: "a", Classes: apps, Allocation: device.Allocation{on("G0", 5000, 10)}},
		{UID: "b", Classes: init, Allocation: device.Allocation{on("G0", 9000, 10), on("G0", 2000, 10)}},
		{UID: "ended", Classes: init, Allocation: device.Allocation{on("G0", 9000, 10), on("G0", 2000, 10)},
			First: phase.None},
		{UID: "c", Classes: apps, Allocation: device.Allocation{on("G1", 1, 60)}},
		{UID: "d", Classes: apps, Allocation: device.Allocation{on("G1", 1, 60)}},
		{UID: "lost", Classes: apps, Allocation: device.Allocation{on("G9", 1, 0)}},
		{UID: "what", Classes: apps, Unreadable: "garbage"},
	} {
		p.Namespace, p.Name, p.Node = "ns", p.UID, "n1"
		book.Observe(p)
	}
	return book
}

// extender is what the collector reads beside the books.
type extender struct{ gates []gate.State }

func (e *extender) States() []gate.State { return e.gates }
func (e *extender) Waiting() int         { return 5 }
func (e *extender) Leads() bool          { return true }

func registry(book *ledger.Book, gates ...gate.State) (*prometheus.Registry, *extender) {
	r, e := prometheus.NewPedanticRegistry(), &extender{gates}
	r.MustRegister(&Collector{Book: book, Gates: e, Requeue: e, Lease: e})
	return r, e
}

func gather(t *testing.T, r prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func lint(t *testing.T, r prometheus.Gatherer) {
	t.Helper()
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, problems %v", err, problems)
	}
}

func TestMetrics(t *testing.T) {
	r, _ := registry(books(), gate.State{Node: "n1", Waiting: 2, Shut: 3 * time.Second})
	lint(t, r)
	values := map[string]float64{}
	for _, f := range gather(t, r) {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "phasegpu_") + "{" + strings.Join(labels, ",") + "}"
			values[name] = m.GetGauge().GetValue()
		}
	}
	const mib = 1 << 20
	for series, want := range map[string]float64{
		"device_memory_capacity_bytes{node=n1,uuid=G0}":                       10000 * mib,
		"device_memory_reserved_bytes{node=n1,uuid=G0}":                       14000 * mib,
		"device_memory_steady_bytes{node=n1,uuid=G0}":                         7000 * mib,
		"device_memory_releasable_bytes{node=n1,uuid=G0}":                     7000 * mib,
		"device_memory_overcommitted_bytes{node=n1,uuid=G0}":                  4000 * mib,
		"device_memory_overcommitted_bytes{node=n1,uuid=G1}":                  0,
		"device_cores_reserved_ratio{node=n1,uuid=G1}":                        1.2,
		"device_slots_reserved{node=n1,uuid=G1}":                              2,
		"device_closed{node=n1,uuid=G2,why=unhealthy}":                        1,
		"device_closed{node=n1,uuid=G2,why=cordoned}":                         1,
		"device_closed{node=n1,uuid=G2,why=mig}":                              1,
		"node_unreadable{node=n1}":                                            1,
		"node_missing_devices{node=n1}":                                       1,
		"quota_used{namespace=ns,quota=q,resource=limits.nvidia.com/gpumem}":  14003,
		"quota_limit{namespace=ns,quota=q,resource=limits.nvidia.com/gpumem}": 20000,
		"ledger_pods{state=bound}":                                            6,
		"ledger_pods{state=unreadable}":                                       1,
		"ledger_pods{state=assumed}":                                          0,
		"gate_waiting_pods{node=n1}":                                          2,
		"gate_shut_seconds{node=n1}":                                          3,
		"refused_pods{}":                                                      5,
		"extender_leads{}":                                                    1,
	} {
		if value, ok := values[series]; !ok || value != want {
			t.Errorf("%s is %v (%v), want %v", series, value, ok, want)
		}
	}
	// These series exist only above 0: there are thousands of devices.
	for _, series := range []string{
		"device_memory_releasable_bytes{node=n1,uuid=G1}", "device_memory_overcommitted_bytes{node=n1,uuid=G2}",
		"device_closed{node=n1,uuid=G0,why=unhealthy}",
	} {
		if value, ok := values[series]; ok {
			t.Errorf("%s is %v", series, value)
		}
	}
}

// A UUID that is not UTF-8 costs its device's series, not the scrape.
func TestUnreadableUUID(t *testing.T) {
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "n1", Devices: []device.Device{{UUID: "G\xff"}, {UUID: "G1"}}})
	r, _ := registry(book)
	for _, f := range gather(t, r) {
		if f.GetName() == "phasegpu_device_memory_capacity_bytes" &&
			(len(f.GetMetric()) != 1 || f.GetMetric()[0].GetLabel()[1].GetValue() != "G1") {
			t.Errorf("series %v", f.GetMetric())
		}
	}
}

// A series ends with its object: the node's with the node, a device's with the device even though pods still hold it,
// the namespace's with the quota.
func TestSeriesEndWithTheirObject(t *testing.T) {
	book := books()
	r, e := registry(book, gate.State{Node: "n1"})
	expect := func(label, value string, some bool) {
		t.Helper()
		var names []string
		for _, f := range gather(t, r) {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == label && l.GetValue() == value {
						names = append(names, f.GetName())
					}
				}
			}
		}
		if len(names) > 0 != some {
			t.Errorf("series of %s %s: %v", label, value, names)
		}
	}
	expect("uuid", "G1", true)
	book.SetNode(ledger.Node{Name: "n1", Devices: book.Node("n1").Devices[:1]})
	expect("uuid", "G1", false)
	expect("uuid", "G0", true)
	book.RemoveNode("n1")
	expect("uuid", "G0", false)
	expect("node", "n1", true) // its gate, and what its pods hold of it
	for _, p := range book.Pods() {
		if _, err := book.Remove(p.UID); err != nil {
			t.Fatal(err)
		}
	}
	e.gates = nil
	expect("node", "n1", false)
	expect("namespace", "ns", true)
	book.RemoveQuota("ns", "q")
	expect("namespace", "ns", false)
}
