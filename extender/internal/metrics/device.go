package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Memory is in bytes and compute in whole cards: Prometheus counts in base units.
const (
	bytesPerMiB  = 1 << 20
	wholePercent = 100
)

var (
	capacity = ofDevice("memory_capacity_bytes", "Memory of a device.")
	reserved = ofDevice("memory_reserved_bytes", "Memory that the remaining phases of a device's pods can use.")
	steady   = ofDevice("memory_steady_bytes",
		"Memory that a device's pods use in their last phase, with all init containers done.")
	releasable = ofDevice("memory_releasable_bytes",
		"Memory reserved beyond steady state: released as init containers finish, or with the pod where its release "+
			"policy is hold. Only devices where it is above 0.")
	over = ofDevice("memory_overcommitted_bytes",
		"Memory reserved beyond a device's own. Only devices that are held above their capacity in memory (0 when it is "+
			"not what is short), cores or slots: containers ran again after it went to others, or the device shrank.")
	cores = ofDevice("cores_reserved_ratio",
		"Compute that the remaining phases of a device's pods can use; 1 is the whole device.")
	slots  = ofDevice("slots_reserved", "Replicas that the remaining phases of a device's pods can use.")
	closed = ofDevice("closed",
		"1 for a device that takes nothing new, by why: unhealthy, cordoned, mig.", "why")
)

func ofDevice(name, help string, labels ...string) *prometheus.Desc {
	return desc("device_"+name, help, append([]string{"node", "uuid"}, labels...)...)
}

// devices serves a node's devices.
func (s series) devices(v *ledger.View) {
	last := steadyMiB(v)
	above := v.OverCommitted()
	for i := range v.Devices {
		d, held := &v.Devices[i], &v.Held[i]
		to, ok := s.card(v.Name, d.UUID)
		if !ok {
			continue
		}
		to.gauge(capacity, float64(d.Capacity.MemoryMiB*bytesPerMiB))
		to.gauge(reserved, float64(held.MemoryMiB*bytesPerMiB))
		to.gauge(steady, float64(last[i]*bytesPerMiB))
		if held.MemoryMiB > last[i] {
			to.gauge(releasable, float64((held.MemoryMiB-last[i])*bytesPerMiB))
		}
		if slices.ContainsFunc(above, func(o ledger.OverCommit) bool { return o.UUID == d.UUID }) {
			to.gauge(over, float64(max(0, held.MemoryMiB-d.Capacity.MemoryMiB)*bytesPerMiB))
		}
		to.gauge(cores, float64(held.Cores)/wholePercent)
		to.gauge(slots, float64(held.Slots))
		if !d.Healthy {
			s.gauge(closed, 1, v.Name, d.UUID, "unhealthy")
		}
		if d.Cordoned {
			s.gauge(closed, 1, v.Name, d.UUID, "cordoned")
		}
		if d.Mode == device.MIG {
			s.gauge(closed, 1, v.Name, d.UUID, "mig")
		}
	}
}

// steadyMiB is what the node's pods hold of each device in their last phases, parallel to Devices.
func steadyMiB(v *ledger.View) []int64 {
	sum := make([]int64, len(v.Devices))
	for _, e := range v.Pods {
		if e.First == phase.None {
			continue
		}
		holdings := e.Reserved.Devices
		if last := e.Classes.Steady(); e.First != last && len(holdings) > 0 {
			r, err := e.Classes.Reserved(e.Allocation, last)
			if err != nil {
				continue // the whole peak had none
			}
			holdings = r.Devices
		}
		for _, h := range holdings {
			if i := slices.IndexFunc(v.Devices, func(d device.Device) bool { return d.UUID == h.UUID }); i >= 0 {
				sum[i] += h.MemoryMiB
			}
		}
	}
	return sum
}
