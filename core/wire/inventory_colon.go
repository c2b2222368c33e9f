package wire

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// decodeColons reads "id,count,devmem,devcore,type,numa,health[,index,mode]:" repeated.
func decodeColons(text string, blockMiB int64) ([]device.Device, error) {
	devices := make([]device.Device, 0, min(strings.Count(text, ":"), maxDevices))
	for place := 0; text != ""; place++ {
		entry, rest, closed := strings.Cut(text, ":")
		if !closed {
			return nil, fmt.Errorf("device %d, %s, does not end in %q: this is no JSON list either, or it was cut short",
				place, quote(entry), ":")
		}
		if place == maxDevices {
			return nil, fmt.Errorf("there are more than %d devices", maxDevices)
		}
		text = rest
		d, err := decodeFields(strings.Split(entry, ","), place, blockMiB)
		if err != nil {
			return nil, fmt.Errorf("device %d, %s: %w", place, quote(entry), err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// decodeFields reads one device whose fields are all given as text, in the order of the colon format.
func decodeFields(fields []string, place int, blockMiB int64) (device.Device, error) {
	var d device.Device
	if len(fields) != 7 && len(fields) != 9 {
		return d, fmt.Errorf("it has %d fields, want 7 or 9: id,count,devmem,devcore,type,numa,health[,index,mode]",
			len(fields))
	}
	if len(fields) == 7 {
		fields = append(fields, fmt.Sprint(place), "")
	}
	return record{
		id: fields[0], count: fields[1], devmem: fields[2], devcore: fields[3], model: fields[4],
		numa: fields[5], health: fields[6], index: fields[7], mode: fields[8],
	}.device(blockMiB)
}
