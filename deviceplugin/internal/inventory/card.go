// Package inventory has the node's cards, found by NVML or declared in a file, and the devices offered from them. It
// publishes the devices in the node's annotation.
package inventory

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
)

// Family is the type word of the one family that this plugin serves.
const Family = "NVIDIA"

// Card is one physical card.
type Card struct {
	UUID      string
	Index     int // NVML's, which follows the PCI bus
	Model     string
	MemoryMiB int64
	NUMA      int // NUMA node, -1 when there is none
	MIG       bool
	Healthy   bool
}

// Shape is how every card of a node is offered.
type Shape struct {
	Replicas      int         // ids per card
	MemoryScaling float64     // memory offered by memory there is; above 1 it is oversubscribed
	Mode          device.Mode // HAMiCore or MPS
}

// Devices returns the devices offered from the cards, sorted by index. A card in MIG mode is listed, without replicas.
// The error names a card that cannot be published.
func (s Shape) Devices(cards []Card) ([]device.Device, error) {
	devices := make([]device.Device, len(cards))
	for i, c := range cards {
		if c.MemoryMiB < 1 || c.MemoryMiB > device.MaxMemoryMiB {
			return nil, fmt.Errorf("card %s has %d MiB, want 1 to %d", c.UUID, c.MemoryMiB, device.MaxMemoryMiB)
		}
		d := device.Device{
			UUID: c.UUID, Index: c.Index, Family: Family, Model: c.Model, NUMA: c.NUMA, Mode: s.Mode,
			Healthy: c.Healthy,
			Capacity: device.Amount{
				Slots: int64(s.Replicas), MemoryMiB: int64(float64(c.MemoryMiB) * s.MemoryScaling),
				Cores: device.WholeCores,
			},
		}
		if c.MIG {
			d.Mode, d.Capacity.Slots, d.Capacity.MemoryMiB = device.MIG, 0, c.MemoryMiB
		}
		devices[i] = d
	}
	text, err := wire.EncodeInventory(devices)
	if err != nil {
		return nil, err
	}
	return wire.DecodeInventory(Family, text, 1)
}
