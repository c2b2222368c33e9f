package families

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/device"
)

// read returns a quantity of one of the family's resources that a container requests.
func (f *Family) read(name corev1.ResourceName, kind Kind, q resource.Quantity) (int64, error) {
	switch kind {
	case Count:
		return f.number(name, q, 1, MaxDevices, "leave all of the family's resources out for no device")
	case Memory:
		return f.number(name, q, 1, device.MaxMemoryMiB/f.MemoryBlockMiB, "leave it out for the whole card")
	case MemoryPercent:
		return f.number(name, q, 1, 100, "leave it out for the whole card")
	default:
		return f.number(name, q, 0, device.WholeCores, "")
	}
}

// Limit returns what a ResourceQuota allows of one of the family's resources, in MiB for memory and in percent for
// cores. It may be any int64 from 0.
func (f *Family) Limit(name corev1.ResourceName, kind Kind, q resource.Quantity) (int64, error) {
	block := int64(1)
	if kind == Memory {
		block = f.MemoryBlockMiB
	}
	value, err := f.number(name, q, 0, maxInt64/block, "")
	return value * block, err
}

const maxInt64 = 1<<63 - 1

// number returns a whole number within bounds. A binary suffix such as Gi is refused: it multiplies the number, and the
// author means bytes, not MiB. A decimal suffix is allowed, because the API server writes 1000 as 1k.
func (f *Family) number(name corev1.ResourceName, q resource.Quantity, least, most int64, none string) (int64, error) {
	if q.Format == resource.BinarySI {
		return 0, fmt.Errorf("%s: %s means %d bytes: write %s", name, q.String(), q.Value(), f.instead(name, q))
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("%s: %s is negative: write a whole number of at least %d", name, q.String(), least)
	}
	if q.CmpInt64(most) > 0 {
		return 0, fmt.Errorf("%s: %s is too large: write at most %d%s", name, q.String(), most, f.unit(name))
	}
	value := q.Value() // rounds up, within the bounds just checked
	if q.CmpInt64(value) != 0 {
		return 0, fmt.Errorf("%s: %s is a fraction: write a whole number", name, q.String())
	}
	if value < least {
		return 0, fmt.Errorf("%s: %s is too small: write at least %d, or %s", name, q.String(), least, none)
	}
	return value, nil
}

// instead returns what to write for a quantity with a binary suffix.
func (f *Family) instead(name corev1.ResourceName, q resource.Quantity) string {
	block := f.MemoryBlockMiB << 20
	if name != f.Memory || q.Sign() <= 0 || q.CmpInt64(device.MaxMemoryMiB<<20) > 0 {
		return "a whole number without suffix" + f.unit(name)
	}
	return fmt.Sprintf("%d%s", (q.Value()+block-1)/block, f.unit(name))
}

// unit returns the unit of a resource for messages, with a leading blank.
func (f *Family) unit(name corev1.ResourceName) string {
	switch {
	case name != f.Memory:
		return ""
	case f.MemoryBlockMiB == 1:
		return " (MiB)"
	default:
		return fmt.Sprintf(" (blocks of %d MiB)", f.MemoryBlockMiB)
	}
}
