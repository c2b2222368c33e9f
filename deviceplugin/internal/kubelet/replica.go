package kubelet

import (
	"fmt"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

// Replicas returns the ids that kubelet may give away, Slots of each device, with NUMA node and health. A
// card in MIG mode has none, whatever its Slots.
func Replicas(devices []device.Device) []*pluginapi.Device {
	var replicas []*pluginapi.Device
	for _, d := range devices {
		if d.Mode == device.MIG {
			continue
		}
		health := pluginapi.Unhealthy
		if d.Healthy {
			health = pluginapi.Healthy
		}
		for n := range d.Capacity.Slots {
			r := &pluginapi.Device{ID: fmt.Sprintf("%s::%d", d.UUID, n), Health: health}
			if d.NUMA >= 0 {
				r.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.NUMA)}}}
			}
			replicas = append(replicas, r)
		}
	}
	return replicas
}

// DeviceOf returns the UUID of the device that an id is a replica of.
func DeviceOf(id string) string {
	uuid, _, _ := strings.Cut(id, "::")
	return uuid
}
