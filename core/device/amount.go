package device

import (
	"errors"
	"fmt"
)

// Arithmetic that would leave the range of an amount is an error. A clamp would hide a release that is counted twice.
var (
	ErrOverflow  = errors.New("amount overflows")
	ErrUnderflow = errors.New("amount would become negative")
)

// Amount is what is held, or can be held, of one device: replica slots, memory and compute, each on
// its own. Amounts never go negative.
type Amount struct {
	Slots     int64 // device plugin replicas
	MemoryMiB int64
	Cores     int64 // percent of one device's compute
}

// Add returns a+b, or ErrOverflow. Like Sub, it refuses a negative amount with ErrUnderflow.
func (a Amount) Add(b Amount) (Amount, error) {
	sum := a.Plus(b)
	switch {
	case a.negative() || b.negative():
		return Amount{}, fmt.Errorf("%v + %v: %w", a, b, ErrUnderflow)
	case sum.negative(): // two's complement: the sum of two non-negative numbers wraps into the sign
		return Amount{}, fmt.Errorf("%v + %v: %w", a, b, ErrOverflow)
	}
	return sum, nil
}

// Plus is Add without the check. It is for sums of shares and capacities whose ranges have been checked (to
// MaxMemoryMiB, WholeCores and one slot per share): fewer than 2^40 of them cannot overflow.
func (a Amount) Plus(b Amount) Amount {
	return Amount{a.Slots + b.Slots, a.MemoryMiB + b.MemoryMiB, a.Cores + b.Cores}
}

// Sub returns a-b, or ErrUnderflow when b exceeds a in any dimension.
func (a Amount) Sub(b Amount) (Amount, error) {
	difference := Amount{a.Slots - b.Slots, a.MemoryMiB - b.MemoryMiB, a.Cores - b.Cores}
	if a.negative() || b.negative() || difference.negative() {
		return Amount{}, fmt.Errorf("%v - %v: %w", a, b, ErrUnderflow)
	}
	return difference, nil
}

// negative reports whether any dimension is below zero.
func (a Amount) negative() bool { return a.Slots|a.MemoryMiB|a.Cores < 0 }

// Max returns the larger of a and b in each dimension.
func (a Amount) Max(b Amount) Amount {
	return Amount{max(a.Slots, b.Slots), max(a.MemoryMiB, b.MemoryMiB), max(a.Cores, b.Cores)}
}

// Within reports whether a exceeds limit in no dimension.
func (a Amount) Within(limit Amount) bool {
	return a.Slots <= limit.Slots && a.MemoryMiB <= limit.MemoryMiB && a.Cores <= limit.Cores
}

// IsZero reports whether a holds nothing.
func (a Amount) IsZero() bool { return a == Amount{} }

// String gives all three dimensions with their units.
func (a Amount) String() string {
	return fmt.Sprintf("%d slots, %d MiB, %d%% cores", a.Slots, a.MemoryMiB, a.Cores)
}
