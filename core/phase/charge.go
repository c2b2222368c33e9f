package phase

import "github.com/phasegpu/phasegpu/core/device"

// Charge is what one or more pods use of a family's devices together; it is what a namespace is charged.
type Charge struct {
	Devices   int64 // counted once for each container that holds one
	MemoryMiB int64 // MiB × devices
	Cores     int64 // percent × devices
}

// ChargeOf returns a sum over shares of devices as a charge.
func ChargeOf(sum device.Amount) Charge {
	return Charge{Devices: sum.Slots, MemoryMiB: sum.MemoryMiB, Cores: sum.Cores}
}

// Amount is the inverse of ChargeOf: Devices become Slots.
func (c Charge) Amount() device.Amount {
	return device.Amount{Slots: c.Devices, MemoryMiB: c.MemoryMiB, Cores: c.Cores}
}

// Add returns c+o, or device.ErrOverflow. Like Sub, it refuses a negative charge with device.ErrUnderflow.
func (c Charge) Add(o Charge) (Charge, error) {
	sum, err := c.Amount().Add(o.Amount())
	return ChargeOf(sum), err
}

// Sub returns c-o, or device.ErrUnderflow when o exceeds c in any dimension.
func (c Charge) Sub(o Charge) (Charge, error) {
	difference, err := c.Amount().Sub(o.Amount())
	return ChargeOf(difference), err
}

// Within reports whether c exceeds limit in no dimension.
func (c Charge) Within(limit Charge) bool { return c.Amount().Within(limit.Amount()) }

// IsZero reports whether c holds nothing.
func (c Charge) IsZero() bool { return c == Charge{} }
