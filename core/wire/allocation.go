package wire

import "github.com/phasegpu/phasegpu/core/device"

// EncodeAllocation writes the entries of one family: "UUID,TYPE,MiB,cores:" per device and ";" after
// each container in position order, so a container without a device of that family is an empty entry.
func EncodeAllocation(family string, a device.Allocation) string { panic("not written yet") }

// DecodeAllocation reads what EncodeAllocation wrote for a pod of the given number of containers. The
// result has exactly that many entries. It is an error when the text has another number of entries, a
// share that is not UUID,TYPE,MiB,cores with TYPE the family's type word, or a number out of range
// (memory 0 to device.MaxMemoryMiB, cores 0 to 100).
func DecodeAllocation(family, text string, containers int) (device.Allocation, error) {
	panic("not written yet")
}
