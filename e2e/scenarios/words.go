package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// containers describes a pod's containers: `init "load" 20480 MiB, app "train" 2 × 10240 MiB`.
func containers(pod *corev1.Pod) string {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return err.Error()
	}
	var all []string
	for position, class := range kube.Classes(&pod.Spec) {
		r := requests[position]
		text := fmt.Sprintf("%v %q", class, kube.Container(&pod.Spec, position).Name)
		switch {
		case r.Devices == 0:
		case r.MemoryMiB > 0:
			text += fmt.Sprintf(" %s MiB", term(r))
		case r.MemoryPercent > 0:
			text += fmt.Sprintf(" %d × %d %%", r.Devices, r.MemoryPercent)
		default:
			text += fmt.Sprintf(" %d × whole card", r.Devices)
		}
		if r.Devices > 0 && r.Family != "NVIDIA" {
			text += " of " + r.Family
		}
		if r.Cores > 0 {
			text += fmt.Sprintf(" with %d %% cores", r.Cores)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// describe describes a pod.
func describe(pod *corev1.Pod) string { return pod.Name + ": " + containers(pod) }

// cards describes devices: "2 × 24576 MiB of NVIDIA (GPU-a-0, GPU-a-1)", or one by one when they differ.
func cards(devices []device.Device) string {
	if len(devices) == 0 {
		return "no devices"
	}
	alike := true
	var names, each []string
	for _, d := range devices {
		alike = alike && d.Family == devices[0].Family && d.Capacity.MemoryMiB == devices[0].Capacity.MemoryMiB
		names = append(names, d.UUID)
		each = append(each, fmt.Sprintf("%s (%d MiB of %s)", d.UUID, d.Capacity.MemoryMiB, d.Family))
	}
	if alike && len(devices) > 1 {
		d := devices[0]
		return fmt.Sprintf("%d × %d MiB of %s (%s)", len(devices), d.Capacity.MemoryMiB, d.Family,
			strings.Join(names, ", "))
	}
	return strings.Join(each, ", ")
}

// limits describes the keys of a quota: "limits.nvidia.com/gpumem 24576"; a nil one is taken away.
func limits[K ~string, V any](hard map[K]V) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(hard)) {
		if value := any(hard[key]); value != nil {
			all = append(all, fmt.Sprintf("%s %v", key, value))
		} else {
			all = append(all, "no "+string(key))
		}
	}
	return strings.Join(all, ", ")
}

// books describes what is reserved: "GPU-a-0 20480 of 24576 MiB, 4096 free".
func books(devices []stack.LedgerDevice) string {
	var all []string
	for _, d := range devices {
		all = append(all, fmt.Sprintf("%s %d of %d MiB, %d free", d.UUID, d.Reserved.MemoryMiB, d.Capacity.MemoryMiB,
			d.Capacity.MemoryMiB-d.Reserved.MemoryMiB))
	}
	return strings.Join(all, "; ")
}
