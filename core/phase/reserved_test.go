package phase

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

func on(uuid, family string, memoryMiB, cores int64) device.Share {
	return device.Share{UUID: uuid, Family: family, Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB, Cores: cores}}
}

func held(uuid, family string, slots, memoryMiB, cores int64, exclusive bool) Holding {
	return Holding{uuid, family, device.Usage{Amount: device.Amount{Slots: slots, MemoryMiB: memoryMiB, Cores: cores},
		Exclusive: exclusive}}
}

func total(family string, devices, memoryMiB, cores int64) Total {
	return Total{family, Charge{devices, memoryMiB, cores}}
}

func TestReserved(t *testing.T) {
	const n, m = "NVIDIA", "AMD"
	for _, c := range []struct {
		name       string
		pod        Pod
		allocation device.Allocation
		from       int
		want       Reservation
	}{
		{"init and app on two cards, namespace charged the largest phase", Pod{i, a},
			device.Allocation{{on("G0", n, 30000, 0)}, {on("G1", n, 20000, 0)}}, 0,
			Reservation{[]Holding{held("G0", n, 1, 30000, 0, false), held("G1", n, 1, 20000, 0, false)},
				[]Total{total(n, 1, 30000, 0)}}},
		{"the same, init complete", Pod{i, a},
			device.Allocation{{on("G0", n, 30000, 0)}, {on("G1", n, 20000, 0)}}, 1,
			Reservation{[]Holding{held("G1", n, 1, 20000, 0, false)}, []Total{total(n, 1, 20000, 0)}}},
		{"a container without devices shifts nothing", Pod{i, a, a},
			device.Allocation{nil, {on("G0", n, 16000, 0)}, {on("G0", n, 16000, 0)}}, 0,
			Reservation{[]Holding{held("G0", n, 2, 32000, 0, false)}, []Total{total(n, 2, 32000, 0)}}},
		{"two devices of 2048", Pod{a}, device.Allocation{{on("G1", n, 2048, 5), on("G0", n, 2048, 5)}}, 0,
			Reservation{[]Holding{held("G0", n, 1, 2048, 5, false), held("G1", n, 1, 2048, 5, false)},
				[]Total{total(n, 2, 4096, 10)}}},
		{"exclusive while the init remains", Pod{i, a}, device.Allocation{{on("G0", n, 1, 100)},
			{on("G0", n, 1, 30)}}, 0,
			Reservation{[]Holding{held("G0", n, 1, 1, 100, true)}, []Total{total(n, 1, 1, 100)}}},
		{"and not afterwards", Pod{i, a}, device.Allocation{{on("G0", n, 1, 100)}, {on("G0", n, 1, 30)}}, 1,
			Reservation{[]Holding{held("G0", n, 1, 1, 30, false)}, []Total{total(n, 1, 1, 30)}}},
		{"halves do not make an exclusive holder", Pod{a, a}, device.Allocation{{on("G0", n, 1, 50)},
			{on("G0", n, 1, 50)}}, 0,
			Reservation{[]Holding{held("G0", n, 2, 2, 100, false)}, []Total{total(n, 2, 2, 100)}}},
		{"unlike amounts on unlike cards", Pod{a}, device.Allocation{{on("G0", n, 20480, 0), on("G1", n, 12288, 0)}}, 0,
			Reservation{[]Holding{held("G0", n, 1, 20480, 0, false), held("G1", n, 1, 12288, 0, false)},
				[]Total{total(n, 2, 32768, 0)}}},
		{"init on its two apps' card", Pod{i, a, a}, device.Allocation{{on("Ga", n, 5000, 0)}, {on("Ga", n, 5000, 0)},
			{on("Ga", n, 5000, 0)}}, 0,
			Reservation{[]Holding{held("Ga", n, 2, 10000, 0, false)}, []Total{total(n, 2, 10000, 0)}}},
		{"init on another card: the namespace is charged the same", Pod{i, a, a},
			device.Allocation{{on("Gb", n, 5000, 0)}, {on("Ga", n, 5000, 0)}, {on("Ga", n, 5000, 0)}}, 0,
			Reservation{[]Holding{held("Ga", n, 2, 10000, 0, false), held("Gb", n, 1, 5000, 0, false)},
				[]Total{total(n, 2, 10000, 0)}}},
		{"two families, totals apart", Pod{i, a}, device.Allocation{{on("G0", n, 10, 0)}, {on("A0", m, 20, 0)}}, 0,
			Reservation{[]Holding{held("A0", m, 1, 20, 0, false), held("G0", n, 1, 10, 0, false)},
				[]Total{total(m, 1, 20, 0), total(n, 1, 10, 0)}}},
		{"one name, two families", Pod{a, a}, device.Allocation{{on("X", n, 10, 0)}, {on("X", m, 20, 0)}}, 0,
			Reservation{[]Holding{held("X", m, 1, 20, 0, false), held("X", n, 1, 10, 0, false)},
				[]Total{total(m, 1, 20, 0), total(n, 1, 10, 0)}}},
		{"ended", Pod{s, a}, device.Allocation{{on("G0", n, 10, 0)}, {on("G0", n, 20, 0)}}, None, Reservation{}},
		{"without devices", Pod{i, a}, nil, 0, Reservation{}},
		{"without devices, recorded", Pod{i, a}, device.Allocation{nil, nil}, 0, Reservation{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.pod.Reserved(c.allocation, c.from)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestReservedErrors(t *testing.T) {
	if _, err := (Pod{i, a}).Reserved(device.Allocation{nil}, 0); err == nil || !strings.Contains(err.Error(),
		"1 entries for 2 containers") {
		t.Errorf("short allocation: %v", err)
	}
	huge := on("G0", "NVIDIA", math.MaxInt64, 0)
	other := on("G1", "NVIDIA", math.MaxInt64, 0)
	for name, c := range map[string]struct {
		allocation device.Allocation
		want       string
	}{
		"on a device":              {device.Allocation{{huge}, {huge}}, "device G0"},
		"over a family":            {device.Allocation{{huge}, {other}}, "family NVIDIA"},
		"in one container":         {device.Allocation{nil, {huge, other}}, "family NVIDIA: container 1"},
		"in one container's start": {device.Allocation{{huge, other}, nil}, "family NVIDIA: container 0"},
	} {
		if _, err := (Pod{a, a}).Reserved(c.allocation, 0); !errors.Is(err,
			device.ErrOverflow) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An overflow in a phase that is over concerns nobody.
	if got, err := (Pod{i, a}).Reserved(device.Allocation{{huge, other}, nil}, 1); err != nil || len(got.Devices) > 0 {
		t.Errorf("after the init: %v, %v", got, err)
	}
}

// Per device and per family, what is reserved is the naive fold over just those shares.
func TestReservedProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		p := randomPod(r, 4)
		allocation := make(device.Allocation, len(p))
		for position := range allocation {
			for _, d := range r.Perm(4)[:r.IntN(4)] {
				family := []string{"NVIDIA", "AMD"}[d%2]
				allocation[position] = append(allocation[position], on(fmt.Sprint("G", d), family, r.Int64N(100),
					[]int64{0, 30, 100}[r.IntN(3)]))
			}
		}
		for from := range p.Len() + 1 {
			got, err := p.Reserved(allocation, from)
			if want := naiveReserved(p, allocation, from); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %v of %v from %d\ngot  %+v, %v\nwant %+v", seed, p, allocation, from, got, err, want)
			}
		}
	}
}

// naiveReserved asks for every device and family by name, in the order of the names.
func naiveReserved(p Pod, allocation device.Allocation, from int) Reservation {
	fold := func(match func(device.Share) bool) (sum device.Amount, used, exclusive bool) {
		amounts := make([]device.Amount, len(p))
		for _, time := range naiveTimes(p, from) {
			for position, shares := range allocation {
				amounts[position] = device.Amount{}
				for _, s := range shares {
					if !match(s) {
						continue
					}
					amounts[position].Slots += s.Amount.Slots
					amounts[position].MemoryMiB += s.Amount.MemoryMiB
					amounts[position].Cores += s.Amount.Cores
					if naiveLives(p, position, time) {
						used = true
						exclusive = exclusive || s.Amount.Cores == 100
					}
				}
			}
		}
		return naiveFold(p, from, amounts), used, exclusive
	}
	var r Reservation
	for d := range 4 {
		uuid, family := fmt.Sprint("G", d), []string{"NVIDIA", "AMD"}[d%2]
		sum, used, exclusive := fold(func(s device.Share) bool { return s.UUID == uuid })
		if used {
			r.Devices = append(r.Devices, Holding{uuid, family, device.Usage{Amount: sum, Exclusive: exclusive}})
		}
	}
	for _, family := range []string{"AMD", "NVIDIA"} {
		if sum, used, _ := fold(func(s device.Share) bool { return s.Family == family }); used {
			r.Totals = append(r.Totals, Total{family, Charge{sum.Slots, sum.MemoryMiB, sum.Cores}})
		}
	}
	return r
}
