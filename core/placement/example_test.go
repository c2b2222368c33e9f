package placement_test

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
)

// An init container of 20 GiB and an app of 10 share a card of 24, because they never run together;
// a sidecar of 16 beside the app would not.
func ExampleFit() {
	node := placement.Node{Devices: []device.Device{{
		UUID: "GPU-1", Family: "NVIDIA", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
	}}}
	pod := &placement.Pod{
		Classes: phase.Pod{phase.Init, phase.App},
		Requests: []device.Request{
			{Family: "NVIDIA", Devices: 1, MemoryMiB: 20480},
			{Family: "NVIDIA", Devices: 1, MemoryMiB: 10240},
		},
	}
	allocation, reason := placement.Fit(node, pod)
	fmt.Println(reason, allocation[0][0].UUID, allocation[1][0].UUID)

	pod.Classes[0], pod.Requests[0].MemoryMiB = phase.Sidecar, 16384
	_, reason = placement.Fit(node, pod)
	fmt.Println(reason)
	fmt.Println(placement.Explain(node, pod).Sentence(func(i int) string { return []string{"cache", "main"}[i] }))
	// Output:
	// Fits GPU-1 GPU-1
	// GPUs too small for the pod's phases
	// GPUs too small for the pod's phases: app container main asks for 1 × NVIDIA (10240 MiB, no limit on cores); devices: 1 Insufficient GPU memory in the pod's phases; nearest is GPU-1, in the steady state: 10240 MiB asked, 16384 held by the pod's other containers, 0 by other pods, of 24576
}

// card is a device of 24 GiB that ten containers may share.
func card(uuid string) device.Device {
	return device.Device{
		UUID: uuid, Family: "NVIDIA", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
	}
}

// Between places that fit, the pod's policy decides; among cards of one node as among nodes.
func ExampleFit_policies() {
	node := placement.Node{
		Devices: []device.Device{card("GPU-busy"), card("GPU-idle")},
		Held:    []device.Usage{{Amount: device.Amount{Slots: 1, MemoryMiB: 8192}}, {}},
	}
	pod := &placement.Pod{
		Classes:  phase.Pod{phase.App},
		Requests: []device.Request{{Family: "NVIDIA", Devices: 1, MemoryMiB: 4096}},
	}
	for _, policy := range []placement.Policy{placement.Binpack, placement.Spread} {
		pod.DevicePolicy = policy
		allocation, _ := placement.Fit(node, pod)
		fmt.Println(policy, allocation[0][0].UUID)
	}
	// Output:
	// binpack GPU-busy
	// spread GPU-idle
}

// Kubelet will give the init container nothing but GPU-b, where the app is. They never run together, so it
// may move there; as a sidecar it would run beside the app and may not.
func ExampleRefit() {
	node := placement.Node{Devices: []device.Device{card("GPU-a"), card("GPU-b")}}
	share := func(uuid string, memoryMiB int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB}}}
	}
	recorded := device.Allocation{share("GPU-a", 20480), share("GPU-b", 10240)}
	for _, class := range []phase.Class{phase.Init, phase.Sidecar} {
		pod := &placement.Pod{
			Classes: phase.Pod{class, phase.App},
			Requests: []device.Request{
				{Family: "NVIDIA", Devices: 1, MemoryMiB: 20480},
				{Family: "NVIDIA", Devices: 1, MemoryMiB: 10240},
			},
		}
		shares, reason := placement.Refit(node, pod, recorded, 0, 0, func(uuid string) bool { return uuid == "GPU-b" })
		fmt.Printf("%v: %s, %v\n", class, shares[0].UUID, reason)
	}
	// Output:
	// init: GPU-b, Fits
	// sidecar: GPU-a, Insufficient GPU memory in the pod's phases
}
