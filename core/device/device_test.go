package device

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestRequestOn(t *testing.T) {
	for _, c := range []struct {
		name    string
		request Request
		card    int64 // MiB
		want    Amount
		known   bool
	}{
		{"no device", Request{}, 24576, Amount{}, true},
		{"MiB", Request{Devices: 1, MemoryMiB: 2048, Cores: 30}, 24576, Amount{1, 2048, 30}, true},
		{"MiB beyond the card are placement's business", Request{Devices: 1, MemoryMiB: 2048}, 1024,
			Amount{1, 2048, 0}, true},
		{"several devices: per device", Request{Devices: 4, MemoryMiB: 2048}, 24576, Amount{1, 2048, 0}, true},
		{"whole card", Request{Devices: 1}, 24576, Amount{1, 24576, 0}, false},
		{"50 % of 40960", Request{Devices: 1, MemoryPercent: 50}, 40960, Amount{1, 20480, 0}, false},
		{"50 % of 24576", Request{Devices: 1, MemoryPercent: 50}, 24576, Amount{1, 12288, 0}, false},
		{"rounds down", Request{Devices: 1, MemoryPercent: 33}, 101, Amount{1, 33, 0}, false},
		{"rounds down to nothing", Request{Devices: 1, MemoryPercent: 1}, 99, Amount{1, 0, 0}, false},
		{"100 %", Request{Devices: 1, MemoryPercent: 100}, 81559, Amount{1, 81559, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if known := c.request.MemoryKnown(); known != c.known {
				t.Errorf("memory known: %v", known)
			}
			if got := c.request.On(c.card); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A percentage is the exact fraction rounded down, at any size.
func TestPercentProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		card, percent := r.Int64()>>r.IntN(63), 1+r.Int64N(100)
		want := new(big.Int).Mul(big.NewInt(card), big.NewInt(percent))
		want.Div(want, big.NewInt(100))
		if got := (Request{Devices: 1, MemoryPercent: percent}).On(card).MemoryMiB; got != want.Int64() {
			t.Fatalf("seed %d: %d%% of %d is %d, want %v", seed, percent, card, got, want)
		}
	}
	if got := (Request{Devices: 1, MemoryPercent: 100}).On(math.MaxInt64).MemoryMiB; got != math.MaxInt64 {
		t.Errorf("100%% of the largest number is %d", got)
	}
}

// Sums over any node stay in range: a thousand devices, each of the largest memory, held a million
// times over.
func TestBoundsLeaveRoom(t *testing.T) {
	if MaxMemoryMiB > math.MaxInt64/(1<<10)/(1<<20) {
		t.Error("MaxMemoryMiB is too large for sums over a node")
	}
}

func TestModeString(t *testing.T) {
	for mode, want := range map[Mode]string{HAMiCore: "hami-core", MPS: "mps", MIG: "mig"} {
		if mode.String() != want {
			t.Errorf("%d: %q, want %q", mode, mode, want)
		}
	}
}

func TestAllocationIsEmpty(t *testing.T) {
	for _, a := range []Allocation{nil, {}, {nil, {}}} {
		if !a.IsEmpty() {
			t.Errorf("%v is not empty", a)
		}
	}
	if (Allocation{nil, {{UUID: "G0"}}}).IsEmpty() {
		t.Error("an allocation with a share is empty")
	}
}
