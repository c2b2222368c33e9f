package kube

import (
	"fmt"
	"math"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Charges returns, by family, the maximum over the pod's phases of what their containers request in total (MiB ×
// devices, percent × devices). known is false for a family of which some memory depends on the device (a percentage,
// the whole card); MemoryMiB is then without those containers.
func Charges(
	classes phase.Pod, requests []device.Request,
) (charges map[string]ledger.Charge, known map[string]bool, err error) {
	if len(classes) != len(requests) {
		return nil, nil, fmt.Errorf("there are requests for %d containers, the pod has %d", len(requests), len(classes))
	}
	charges, known = map[string]ledger.Charge{}, map[string]bool{}
	for i := range requests {
		r := &requests[i]
		if r.Devices == 0 {
			continue
		}
		if most := int64(math.MaxInt64) / int64(r.Devices); r.MemoryMiB > most || r.Cores > most {
			return nil, nil, fmt.Errorf("container %d: %d devices: %w", i, r.Devices, device.ErrOverflow)
		}
		if _, ok := known[r.Family]; !ok {
			known[r.Family] = true
		}
		known[r.Family] = known[r.Family] && r.MemoryKnown()
	}
	for family := range known {
		sum, err := classes.Fold(0, func(position int) device.Amount {
			r := &requests[position]
			if r.Family != family {
				return device.Amount{}
			}
			n := int64(r.Devices)
			return device.Amount{Slots: n, MemoryMiB: n * r.MemoryMiB, Cores: n * r.Cores}
		})
		if err != nil {
			return nil, nil, fmt.Errorf("family %s: %w", family, err)
		}
		charges[family] = phase.ChargeOf(sum)
	}
	return charges, known, nil
}
