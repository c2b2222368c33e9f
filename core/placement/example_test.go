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
