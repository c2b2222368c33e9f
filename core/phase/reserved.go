package phase

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
)

// Reservation is what the remaining phases of a pod can use, and so what the books charge for it.
type Reservation struct {
	// Devices is what each device is charged, sorted by UUID, then family. An init container on one
	// device and an app on another charge both. Devices that no remaining phase uses are left out.
	Devices []Holding
	// Totals is what the namespace is charged, sorted by family: the total of the largest phase over all devices.
	// Moving a container to another device does not change it.
	Totals []Total
}

// Holding is what a pod can still use of one device: the maximum over the phases that remain, and
// whether a container with device.WholeCores there is alive in one of them.
type Holding struct {
	UUID   string
	Family string // type word
	device.Usage
}

// Total is the maximum, over the phases that remain, of what a pod uses of a family's devices together.
type Total struct {
	Family string // type word
	Charge
}

// Reserved returns what the phases from index from on can use of an allocation: with 0 the peak, with
// the result of First what is reserved now, with None nothing.
//
// It is an error when the allocation has not one entry per container (nil is an allocation without
// devices), and device.ErrOverflow when a sum leaves the range of an amount.
func (p Pod) Reserved(a device.Allocation, from int) (Reservation, error) {
	var r Reservation
	if a != nil && len(a) != len(p) {
		return r, fmt.Errorf("the allocation has %d entries for %d containers", len(a), len(p))
	}
	for position, shares := range a {
		if !p.remains(from, position) {
			continue
		}
		for i := range shares {
			r.list(&shares[i])
		}
	}
	for i := range r.Devices {
		h := &r.Devices[i]
		amount, err := p.foldShares(from, a, func(s *device.Share) bool {
			return s.UUID == h.UUID &&
				s.Family == h.Family
		})
		if err != nil {
			return Reservation{}, fmt.Errorf("device %s: %w", h.UUID, err)
		}
		h.Amount = amount
	}
	for i := range r.Totals {
		t := &r.Totals[i]
		amount, err := p.foldShares(from, a, func(s *device.Share) bool { return s.Family == t.Family })
		if err != nil {
			return Reservation{}, fmt.Errorf("family %s: %w", t.Family, err)
		}
		t.Charge = ChargeOf(amount)
	}
	slices.SortFunc(r.Devices, func(x, y Holding) int {
		return cmp.Or(cmp.Compare(x.UUID, y.UUID), cmp.Compare(x.Family, y.Family))
	})
	slices.SortFunc(r.Totals, func(x, y Total) int { return cmp.Compare(x.Family, y.Family) })
	return r, nil
}

// Charges returns the totals by family.
func (r Reservation) Charges() map[string]Charge {
	charges := make(map[string]Charge, len(r.Totals))
	for _, t := range r.Totals {
		charges[t.Family] = t.Charge
	}
	return charges
}

// list adds a share's device and family, without amounts, unless they are listed.
func (r *Reservation) list(s *device.Share) {
	i := slices.IndexFunc(r.Devices, func(h Holding) bool { return h.UUID == s.UUID && h.Family == s.Family })
	if i < 0 {
		i = len(r.Devices)
		r.Devices = append(r.Devices, Holding{UUID: s.UUID, Family: s.Family})
	}
	if s.Amount.Cores >= device.WholeCores {
		r.Devices[i].Exclusive = true
	}
	if !slices.ContainsFunc(r.Totals, func(t Total) bool { return t.Family == s.Family }) {
		r.Totals = append(r.Totals, Total{Family: s.Family})
	}
}

// foldShares folds, per container, the sum of its shares that match.
func (p Pod) foldShares(from int, a device.Allocation, match func(*device.Share) bool) (device.Amount, error) {
	var overflow error // of one container's own sum
	folded, err := p.Fold(from, func(position int) device.Amount {
		var sum device.Amount
		for i := range a[position] {
			if s := &a[position][i]; match(s) {
				added, err := sum.Add(s.Amount)
				if err != nil {
					overflow = fmt.Errorf("container %d: %w", position, err)
				}
				sum = added
			}
		}
		return sum
	})
	return folded, cmp.Or(overflow, err)
}
