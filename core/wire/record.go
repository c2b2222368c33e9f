package wire

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
)

// record is a device as both formats of an inventory write it, field by field, numbers and health
// still text.
type record struct{ id, count, devmem, devcore, model, numa, health, index, mode string }

// device converts a record; the error names the field.
func (r record) device(blockMiB int64) (device.Device, error) {
	d := device.Device{UUID: r.id, Model: r.model}
	err := checkID("id", r.id)
	read := func(field, text string, least, most int64) (n int64) {
		if err == nil {
			n, err = number(field, text, least, most)
		}
		return n
	}
	d.Capacity.Slots = read("count", r.count, 0, maxReplicas)
	d.Capacity.Cores = read("devcore", r.devcore, 0, maxCores)
	d.NUMA = int(read("numa", r.numa, minNUMA, maxNUMA))
	d.Index = int(read("index", r.index, 0, maxIndex))
	if err != nil {
		return device.Device{}, err
	}
	if d.Capacity.MemoryMiB, err = blocks("devmem", r.devmem, blockMiB); err != nil {
		return device.Device{}, err
	}
	if d.Mode, err = parseMode(r.mode); err != nil {
		return device.Device{}, err
	}
	switch r.health {
	case "true":
		d.Healthy = true
	case "false":
	default:
		return device.Device{}, fmt.Errorf("health %s is neither true nor false", quote(r.health))
	}
	return d, nil
}
