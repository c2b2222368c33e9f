package overcommit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Case 19: card 24576, P1 (init 20000, app 5000) steady, P2 15000 beside it, P1's sandbox dies.
func TestRerunWithoutRoom(t *testing.T) {
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "n", Devices: []device.Device{
		{UUID: "G0", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}},
		{UUID: "G1", Family: "NVIDIA", Index: 1, Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}},
	}})
	share := func(uuid string, mib int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}}
	}
	p1 := ledger.Pod{UID: "p1", Namespace: "ns", Name: "p1", Node: "n", Classes: phase.Pod{phase.Init, phase.App},
		Allocation: device.Allocation{share("G0", 20000), share("G0", 5000)}, First: 1}
	p2 := ledger.Pod{UID: "p2", Namespace: "ns", Name: "p2", Node: "n", Classes: phase.Pod{phase.App}, Allocation: device.Allocation{share("G0", 15000)}}
	elsewhere := ledger.Pod{UID: "p3", Namespace: "ns", Name: "p3", Node: "n", Classes: phase.Pod{phase.App}, Allocation: device.Allocation{share("G1", 1000)}}
	recorder := events.NewFakeRecorder(10)
	observe := func(p ledger.Pod) {
		d := book.Observe(p)
		Warn(recorder, &corev1.Pod{}, d, book.Pod(p.UID), book.Node("n"))
	}
	observe(p1)
	observe(p2)
	if len(recorder.Events) != 0 {
		t.Fatalf("an event without over-commit: %s", <-recorder.Events)
	}
	p1.First = 0
	observe(p1)
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	got := <-recorder.Events
	for _, word := range []string{"Warning", Reason, "G0", "node n", "35000 MiB", "24576 MiB"} {
		if !strings.Contains(got, word) {
			t.Errorf("event %q does not say %q", got, word)
		}
	}
	observe(p1) // the same again
	observe(elsewhere)
	p1.First = 1
	observe(p1) // it falls
	if len(recorder.Events) != 0 {
		t.Errorf("one event too many: %s", <-recorder.Events)
	}
}
