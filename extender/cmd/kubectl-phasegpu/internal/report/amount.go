// Package report is what the verbs' reports have in common: amounts, the phases of a pod, and why containers find
// no device. JSON shows these values as they are, and text is drawn from them.
package report

import (
	"fmt"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Amount is slots, MiB and percent of compute: of one device, or summed over devices. A difference may be negative.
type Amount struct {
	Slots     int64 `json:"slots"`
	MemoryMiB int64 `json:"memoryMiB"`
	Cores     int64 `json:"cores"`
}

// Plus returns a sum.
func (a Amount) Plus(b Amount) Amount {
	return Amount{a.Slots + b.Slots, a.MemoryMiB + b.MemoryMiB, a.Cores + b.Cores}
}

// Minus returns a difference.
func (a Amount) Minus(b Amount) Amount {
	return Amount{a.Slots - b.Slots, a.MemoryMiB - b.MemoryMiB, a.Cores - b.Cores}
}

// Positive returns the amount with zeros for what is negative.
func (a Amount) Positive() Amount {
	return Amount{max(0, a.Slots), max(0, a.MemoryMiB), max(0, a.Cores)}
}

// Held writes what is held of a device.
func (a Amount) Held() string {
	text := fmt.Sprintf("%d MiB", a.MemoryMiB)
	if a.Cores > 0 {
		text += fmt.Sprintf(" and %d %% cores", a.Cores)
	}
	return text
}

// Freed writes what becomes free: of memory and cores what is not zero, else the slots.
func (a Amount) Freed() string {
	switch {
	case a.MemoryMiB > 0:
		return a.Held()
	case a.Cores > 0:
		return fmt.Sprintf("%d %% cores", a.Cores)
	}
	return render.Count(a.Slots, "slot")
}

// Share is an amount of one device.
type Share struct {
	UUID string `json:"uuid"`
	Amount
}
