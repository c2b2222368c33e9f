package ledger_test

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// An init container of 20 GiB and an app of 10 GiB share a card of 24 GiB: the second pod fits as soon as
// the first pod's init has completed.
func Example() {
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "node-1", Devices: []device.Device{{
		UUID: "GPU-0", Family: "NVIDIA", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
	}}})
	holds := func(memory int64) []device.Share {
		return []device.Share{{UUID: "GPU-0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memory}}}
	}
	free := func() int64 {
		view := book.Node("node-1")
		return view.Devices[0].Capacity.MemoryMiB - view.Held[0].MemoryMiB
	}

	first := ledger.Pod{
		UID: "1", Namespace: "team", Name: "first", Node: "node-1",
		Classes:    phase.Pod{phase.Init, phase.App},
		Allocation: device.Allocation{holds(20480), holds(10240)},
	}
	second := ledger.Pod{UID: "2", Namespace: "team", Name: "second", Node: "node-1", Classes: phase.Pod{phase.App}}
	place := func(view *ledger.View) (device.Allocation, error) {
		if view.Held[0].MemoryMiB+12288 > view.Devices[0].Capacity.MemoryMiB {
			return nil, fmt.Errorf("12288 MiB are asked for, %d are free", view.Devices[0].Capacity.MemoryMiB-view.Held[0].MemoryMiB)
		}
		return device.Allocation{holds(12288)}, nil
	}

	book.Observe(first)
	_, _, err := book.Assume(second, place)
	fmt.Println("init running:", err)

	first.First = 1 // what phase.Pod.First says once the init has exited 0
	delta := book.Observe(first)
	fmt.Println("init done, released:", delta.Released)

	_, _, err = book.Assume(second, place)
	fmt.Println("second pod:", err, "and", free(), "MiB free")
	// Output:
	// init running: 12288 MiB are asked for, 4096 are free
	// init done, released: true
	// second pod: <nil> and 2048 MiB free
}
