package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// random gives a test its own random numbers and says on failure how to get them again.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func TestFitIsExactlyWhatTheTwinFinds(t *testing.T) {
	sizes := []struct {
		pods, devices, containers int
		prune                     bool
	}{
		{12000, 3, 3, false},
		{20000, 5, 4, true},
		{1000, 8, 4, true},
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("%d devices, %d containers", size.devices, size.containers), func(t *testing.T) {
			r := random(t)
			var s Scratch // one for all: what it remembers must not matter
			seen, searched := map[Reason]int{}, 0
			for range size.pods {
				n := randomNode(r, 1+r.IntN(size.devices))
				p := randomPod(r, size.containers, n)
				got, reason := s.Fit(n, p)
				seen[reason]++
				if want := exists(n, p, size.prune); want != (reason == Fits) {
					t.Fatalf("got %q, the twin says %v\nnode %+v\npod %+v", reason, want, n, p)
				}
				if reason != Fits {
					// Unresolvable means just that: an empty node would not take it.
					if empty := exists(Node{Devices: n.Devices}, p, size.prune); empty == reason.Unresolvable() {
						t.Fatalf("got %q, but the empty node fits: %v\nnode %+v\npod %+v", reason, empty, n, p)
					}
				} else {
					checkResult(t, n, p, got)
				}
				checkSteady(t, r, n, p, got, reason)
				var g Scratch
				if g.load(n, p, 0); reason == Fits && !g.greedy() {
					searched++
				}
			}
			t.Logf("%d found by search alone; %v", searched, seen)
			if searched < size.pods/1000 {
				t.Errorf("only %d found by search alone", searched)
			}
			for _, reason := range []Reason{Fits, TooFewDevices, NotSelected, NoMemory, NoSlots, NoCores, Exclusive,
				CapacityTooSmall, NotOnOneNUMANode, NotAligned} {
				if seen[reason] == 0 {
					t.Errorf("never %q: the random pods do not try it", reason)
				}
			}
		})
	}
}

// checkResult holds a found allocation to the rules.
func checkResult(t *testing.T, n Node, p *Pod, got device.Allocation) {
	t.Helper()
	if len(got) != len(p.Classes) {
		t.Fatalf("%d entries for %d containers", len(got), len(p.Classes))
	}
	for i, shares := range got {
		if len(shares) != p.Requests[i].Devices {
			t.Fatalf("container %d got %d devices, asked for %d", i, len(shares), p.Requests[i].Devices)
		}
	}
	if !valid(n, p, got, 0) {
		t.Fatalf("breaks a rule: %v\nnode %+v\npod %+v", got, n, p)
	}
	if r := Check(n, p, got, 0); r != Fits {
		t.Fatalf("Check of what Fit found: %q\nnode %+v\npod %+v\n%v", r, n, p, got)
	}
	if score := Score(n, p, got); score < 0 || score > 1 {
		t.Fatalf("score %v", score)
	}
}

// checkSteady holds that the same input gives the same answer, by whichever way it is asked for, and
// that the order of devices changes neither feasibility nor reason.
func checkSteady(t *testing.T, r *rand.Rand, n Node, p *Pod, got device.Allocation, reason Reason) {
	t.Helper()
	again, reason2 := Fit(n, p)
	if reason2 != reason || reason == Fits && !reflect.DeepEqual(normal(got), normal(again)) {
		t.Fatalf("Scratch: %v %q\nfresh: %v %q\nnode %+v\npod %+v", got, reason, again, reason2, n, p)
	}
	var s Scratch
	if score, reason3 := s.Rate(n, p); reason3 != reason || reason == Fits && score != Score(n, p, again) {
		t.Fatalf("Rate %v %q, Fit %q with score %v\nnode %+v\npod %+v", score, reason3, reason, Score(n, p, again), n,
			p)
	}
	shuffled := Node{Devices: make([]device.Device, len(n.Devices)), Held: make([]device.Usage, len(n.Held))}
	for i, j := range r.Perm(len(n.Devices)) {
		shuffled.Devices[i], shuffled.Held[i] = n.Devices[j], n.Held[j]
	}
	if _, reason4 := Fit(shuffled, p); reason4 != reason {
		t.Fatalf("%q, and with the devices in another order %q\nnode %+v\npod %+v", reason, reason4, n, p)
	}
}

// normal makes nil and empty entries equal.
func normal(a device.Allocation) device.Allocation {
	out := make(device.Allocation, len(a))
	for i := range a {
		out[i] = append([]device.Share{}, a[i]...)
	}
	return out
}

// TestInitsRaiseThePeakLeast: no other single device would have raised the pod's peak memory less.
func TestInitsRaiseThePeakLeast(t *testing.T) {
	r := random(t)
	checked := 0
	for range 20000 {
		n := randomNode(r, 2+r.IntN(3))
		p := randomPod(r, 4, n)
		a, reason := Fit(n, p)
		if reason != Fits {
			continue
		}
		last := -1 // the last init: everything else was placed before it
		for i, c := range p.Classes {
			if c == phase.Init && p.Requests[i].Devices > 0 {
				last = i
			}
		}
		if last < 0 || p.Requests[last].Devices != 1 {
			continue
		}
		chosen := totalPeakMiB(n, p, a, 0)
		for d := range n.Devices {
			other := append(device.Allocation(nil), a...)
			other[last] = []device.Share{{UUID: n.Devices[d].UUID, Family: n.Devices[d].Family,
				Amount: p.Requests[last].On(n.Devices[d].Capacity.MemoryMiB)}}
			if valid(n, p, other, 0) {
				checked++
				if peak := totalPeakMiB(n, p, other, 0); peak < chosen {
					t.Fatalf("peaks %d MiB, with container %d on %s %d\nnode %+v\npod %+v\n%v", chosen, last,
						n.Devices[d].UUID, peak, n, p, a)
				}
			}
		}
	}
	if checked < 2000 {
		t.Errorf("only %d alternatives looked at", checked)
	}
}

// totalPeakMiB sums the pod's peak from a phase on over the devices.
func totalPeakMiB(n Node, p *Pod, a device.Allocation, from int) int64 {
	total := int64(0)
	for _, dev := range n.Devices {
		peak, err := p.Classes.Fold(from, func(i int) device.Amount {
			for _, share := range a[i] {
				if share.UUID == dev.UUID {
					return share.Amount
				}
			}
			return device.Amount{}
		})
		if err != nil {
			panic(err)
		}
		total += peak.MemoryMiB
	}
	return total
}

// TestCheckIsTheTwin: Check of any allocation, from any phase, is what the rules say.
func TestCheckIsTheTwin(t *testing.T) {
	r := random(t)
	fits := 0
	for range 10000 {
		n := randomNode(r, 1+r.IntN(4))
		p := randomPod(r, 3, n)
		if r.IntN(3) > 0 {
			n.Held = nil // so that more fits
		}
		a := make(device.Allocation, len(p.Classes))
		for i, request := range p.Requests {
			perm := r.Perm(len(n.Devices))
			for k := range request.Devices {
				dev := n.Devices[perm[k%len(perm)]]
				a[i] = append(a[i], device.Share{UUID: dev.UUID, Family: dev.Family,
					Amount: request.On(dev.Capacity.MemoryMiB)})
			}
		}
		for from := range p.Classes.Len() + 1 {
			want := valid(n, p, a, from)
			if got := Check(n, p, a, from); (got == Fits) != want {
				t.Fatalf("from phase %d: got %q, the twin says %v\nnode %+v\npod %+v\n%v", from, got, want, n, p, a)
			}
			if want {
				fits++
			}
		}
	}
	if fits < 1000 {
		t.Errorf("only %d of the random allocations are valid", fits)
	}
}

// TestSearchIsCompleteInTheGuaranteedRange: 4 containers on 8 devices never reach the bounds.
func TestSearchIsCompleteInTheGuaranteedRange(t *testing.T) {
	r := random(t)
	var s Scratch
	searches := 0
	for range 10000 {
		n := cards(100, 100, 100, 100, 100, 100, 100, 100)
		for d := range n.Devices {
			n.Devices[d].NUMA = r.IntN(1 + r.IntN(4))
			n = n.with(d, r.Int64N(60), 0)
		}
		p := &Pod{DevicePolicy: pick(r, Binpack, Spread), NUMABind: r.IntN(3) == 0}
		for range 4 {
			p.Classes = append(p.Classes, pick(r, phase.Sidecar, phase.Sidecar, phase.Init, phase.App))
			p.Requests = append(p.Requests, devices(2+r.IntN(7), 10+r.Int64N(60), 0))
		}
		s.load(n, p, 0)
		if s.alone() != Fits {
			continue
		}
		searches++
		if _, complete := s.find(); !complete {
			t.Fatalf("gave up after %d trials\nnode %+v\npod %+v", s.search.trials, n, p)
		}
	}
	if searches < 500 {
		t.Errorf("only %d searches", searches)
	}
}

// TestBeyondTheGuaranteedRange: a pod that is too much to search for ends, and what fits is valid.
func TestBeyondTheGuaranteedRange(t *testing.T) {
	r := random(t)
	for range 200 {
		memory := make([]int64, 16)
		for d := range memory {
			memory[d] = 50 + r.Int64N(50)
		}
		n := cards(memory...).numa("0011223344556677")
		p := &Pod{NUMABind: r.IntN(2) == 0}
		for range 4 + r.IntN(6) {
			p.Classes = append(p.Classes, pick(r, phase.Sidecar, phase.Init, phase.App))
			p.Requests = append(p.Requests, devices(1+r.IntN(8), 5+r.Int64N(60), 0))
		}
		if a, reason := Fit(n, p); reason == Fits && !valid(n, p, a, 0) {
			t.Fatalf("breaks a rule: %v\nnode %+v\npod %+v", a, n, p)
		}
	}
}
