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
			return nil, fmt.Errorf("12288 MiB are asked for, %d are free",
				view.Devices[0].Capacity.MemoryMiB-view.Held[0].MemoryMiB)
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

// card is a node with one device of 24 GiB.
func card(node string) ledger.Node {
	return ledger.Node{Name: node, Devices: []device.Device{{
		UUID: "GPU-0", Family: "NVIDIA", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
	}}}
}

// holding is a container's share of that device.
func holding(memoryMiB int64) []device.Share {
	return []device.Share{{UUID: "GPU-0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB}}}
}

// Being told twice changes nothing, and nothing can be released twice.
func ExampleBook_Remove() {
	book := ledger.New()
	book.SetNode(card("node-1"))
	pod := ledger.Pod{
		UID: "1", Namespace: "team", Name: "app", Node: "node-1",
		Classes: phase.Pod{phase.App}, Allocation: device.Allocation{holding(10240)},
	}
	fmt.Println(book.Observe(pod).Changed, book.Observe(pod).Changed)
	_, err := book.Remove("1")
	fmt.Println(book.Node("node-1").Held[0].MemoryMiB, err)
	_, err = book.Remove("1")
	fmt.Println(book.Node("node-1").Held[0].MemoryMiB, err)
	// Output:
	// true false
	// 0 <nil>
	// 0 release of pod 1: the ledger holds nothing for the pod
}

// The quota is part of the decision: two pods that race for its last MiB cannot both be booked.
func ExampleBook_Assume_quota() {
	book := ledger.New()
	book.SetNode(card("node-1"))
	book.SetQuota(ledger.Quota{Namespace: "team", Name: "gpu", Limits: []ledger.Limit{
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Dimension: ledger.Memory, Max: 10000},
	}})
	for _, name := range []string{"first", "second"} {
		pod := ledger.Pod{UID: name, Namespace: "team", Name: name, Node: "node-1", Classes: phase.Pod{phase.App}}
		_, _, err := book.Assume(pod, func(*ledger.View) (device.Allocation, error) {
			return device.Allocation{holding(6000)}, nil
		})
		fmt.Println(name+":", err)
	}
	// Output:
	// first: <nil>
	// second: namespace team, quota gpu, limits.nvidia.com/gpumem: asked 6000 MiB, used 6000 MiB of 10000 MiB: ask for less, wait until pods there release it, or raise the quota
}

// The init container of the first pod has to run again, but its memory has gone to the second. The books
// show the sum as it is and never cut it off at the capacity.
func ExampleView_OverCommitted() {
	book := ledger.New()
	book.SetNode(card("node-1"))
	first := ledger.Pod{
		UID: "1", Namespace: "team", Name: "first", Node: "node-1",
		Classes: phase.Pod{phase.Init, phase.App}, Allocation: device.Allocation{holding(20000), holding(5000)},
		First: 1, // the init container has completed
	}
	book.Observe(first)
	book.Observe(ledger.Pod{
		UID: "2", Namespace: "team", Name: "second", Node: "node-1",
		Classes: phase.Pod{phase.App}, Allocation: device.Allocation{holding(15000)},
	})
	fmt.Println(book.Node("node-1").OverCommitted())

	first.First = 0 // its sandbox is gone
	delta := book.Observe(first)
	fmt.Println("raised:", delta.Raised)
	for _, over := range book.Node("node-1").OverCommitted() {
		fmt.Println(over.UUID, over.Held.MemoryMiB, "of", over.Capacity.MemoryMiB)
	}
	// Output:
	// []
	// raised: true
	// GPU-0 35000 of 24576
}
