package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// DecodeInventory reads a node's devices of one family in either format, whichever the text is in: the
// JSON list, or the colon format "id,count,devmem,devcore,type,numa,health[,index,mode]:" repeated.
// The devices come sorted by index, then UUID. Memory in the text is in blocks of blockMiB (1 for MiB).
//
// Zero and false fields may be missing from the JSON (without "health" a device is unhealthy, without
// "mode" it is shared by hami-core) and unknown ones are ignored; a device of the colon format without
// index has its place in the list. Duplicate or missing ids, unknown modes, and numbers out of range
// are errors that name the device: a list that is wrong in one place is not trusted in another.
func DecodeInventory(family, text string, blockMiB int64) ([]device.Device, error) {
	if err := checkText(text); err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New(`inventory is empty: a node without devices has no inventory, or "[]"`)
	}
	decode := decodeColons
	if text[0] == '[' {
		decode = decodeJSON
	}
	devices, err := decode(text, blockMiB)
	if err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	for i := range devices {
		devices[i].Family = family
	}
	if err := sortDevices(devices); err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	return devices, nil
}

// sortDevices puts devices into the order of an inventory: by index, then UUID. A UUID that is there
// twice is an error.
func sortDevices(devices []device.Device) error {
	if len(devices) > maxDevices {
		return fmt.Errorf("%d devices are more than %d", len(devices), maxDevices)
	}
	seen := make(map[string]bool, len(devices))
	for _, d := range devices {
		if seen[d.UUID] {
			return fmt.Errorf("device %s is listed twice", d.UUID)
		}
		seen[d.UUID] = true
	}
	slices.SortFunc(devices, func(a, b device.Device) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return nil
}

// parseMode reads the name of a sharing mode; none is hami-core.
func parseMode(name string) (device.Mode, error) {
	if name == "" {
		return device.HAMiCore, nil
	}
	return choose("mode", name, device.HAMiCore, device.MPS, device.MIG)
}
