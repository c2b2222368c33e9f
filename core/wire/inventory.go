package wire

import "github.com/phasegpu/phasegpu/core/device"

// DecodeInventory reads a node's devices of one family in either format, whichever the text is in: the
// JSON list, or the colon format "id,count,devmem,devcore,type,numa,health[,index,mode]:" repeated.
// The devices come sorted by index, then UUID. Memory in the text is in blocks of blockMiB (1 for MiB).
// Duplicate ids, missing ids, unknown modes and numbers out of range are errors.
func DecodeInventory(family, text string, blockMiB int64) ([]device.Device, error) {
	panic("not written yet")
}

// EncodeInventory writes devices as the JSON list, byte for byte the same for equal devices.
func EncodeInventory(devices []device.Device) (string, error) { panic("not written yet") }

// DecodeCordon reads a comma-separated list of device ids; blanks around them are dropped.
func DecodeCordon(text string) []string { return DecodeList(text) }

// DecodeList reads a comma-separated list: values trimmed, empty ones dropped.
func DecodeList(text string) []string { panic("not written yet") }
