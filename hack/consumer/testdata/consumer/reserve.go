// Package consumer is a program of somebody else that uses core.
package consumer

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
)

// Reserve places a pod with an init container and an app on a node with the given inventory, and returns
// the record of it and what each completed init container leaves reserved, in MiB.
func Reserve(inventory string, initMiB, appMiB int64) (record string, reserved []int64, err error) {
	devices, err := wire.DecodeInventory("NVIDIA", inventory, 1)
	if err != nil {
		return "", nil, err
	}
	request := func(memoryMiB int64) device.Request {
		return device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: memoryMiB}
	}
	pod := &placement.Pod{
		Classes:  phase.Pod{phase.Init, phase.App},
		Requests: []device.Request{request(initMiB), request(appMiB)},
	}
	node := placement.Node{Devices: devices, Held: make([]device.Usage, len(devices))}
	allocation, reason := placement.Fit(node, pod)
	if reason != placement.Fits {
		return "", nil, fmt.Errorf("the pod fits nowhere: %v", reason)
	}
	record = wire.EncodeAllocation("NVIDIA", allocation)
	for completed := range pod.Classes.Len() {
		r, err := pod.Classes.Reserved(allocation, completed)
		if err != nil {
			return "", nil, err
		}
		var memoryMiB int64
		for _, t := range r.Totals {
			memoryMiB += t.MemoryMiB
		}
		reserved = append(reserved, memoryMiB)
	}
	return record, reserved, nil
}
