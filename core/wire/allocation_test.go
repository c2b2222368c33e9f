package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

func share(uuid string, memoryMiB, cores int64) device.Share {
	return device.Share{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB,
		Cores: cores}}
}

// Entries of containers without devices stay where they are, whichever they are.
func TestAllocationRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       device.Allocation
	}{
		{"no container", "", device.Allocation{}},
		{"one container", "G0,NVIDIA,1024,30:;", device.Allocation{{share("G0", 1024, 30)}}},
		{"only an empty entry", ";", device.Allocation{nil}},
		{"first empty", ";G0,NVIDIA,1024,0:;", device.Allocation{nil, {share("G0", 1024, 0)}}},
		{"middle empty", "G0,NVIDIA,1,0:;;;G1,NVIDIA,2,0:;", device.Allocation{{share("G0", 1, 0)}, nil, nil,
			{share("G1", 2, 0)}}},
		{"last empty", "G0,NVIDIA,1,0:;;", device.Allocation{{share("G0", 1, 0)}, nil}},
		{"several devices, in their order", "G1,NVIDIA,1,0:G0,NVIDIA,2,5:;;",
			device.Allocation{{share("G1", 1, 0), share("G0", 2, 5)}, nil}},
		{"one device in two containers", "G0,NVIDIA,1,0:;G0,NVIDIA,2,0:;",
			device.Allocation{{share("G0", 1, 0)}, {share("G0", 2, 0)}}},
		{"bounds", "G0,NVIDIA,0,0:;G0,NVIDIA,8388608,100:;", device.Allocation{{share("G0", 0, 0)},
			{share("G0", device.MaxMemoryMiB, 100)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeAllocation("NVIDIA", c.text, len(c.want))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("decoded %v, %v, want %v", got, err, c.want)
			}
			if text := EncodeAllocation("NVIDIA", got); text != c.text {
				t.Errorf("encoded %q, want %q", text, c.text)
			}
		})
	}
}

// A container of another family has an empty entry in this one's annotation.
func TestEncodeAllocationOfOneFamily(t *testing.T) {
	a := device.Allocation{{share("G0", 1, 2)},
		{{UUID: "A0", Family: "AMD", Amount: device.Amount{Slots: 1, MemoryMiB: 3}}}}
	if got, want := EncodeAllocation("NVIDIA", a), "G0,NVIDIA,1,2:;;"; got != want {
		t.Errorf("NVIDIA: %q, want %q", got, want)
	}
	if got, want := EncodeAllocation("AMD", a), ";A0,AMD,3,0:;"; got != want {
		t.Errorf("AMD: %q, want %q", got, want)
	}
}

// saysShortly fails the test unless the error has these words and does not repeat a hostile text.
func saysShortly(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("error %v, want one with %q", err, words)
	}
	if len(err.Error()) > 400 {
		t.Errorf("the error repeats %d bytes of hostile text", len(err.Error()))
	}
}

func TestAllocationRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"too few containers", "G0,NVIDIA,1,0:;", "entries for 1 containers, the pod has 2"},
		{"too many containers", ";;;", "entries for 3 containers, the pod has 2"},
		{"empty", "", "entries for 0 containers, the pod has 2"},
		{"cut in the last entry", ";G0,NVIDIA,1", `allocation ends in "G0,NVIDIA,1"`},
		{"device not closed", "G0,NVIDIA,1,0;;", `container 0: "G0,NVIDIA,1,0" does not end in ":"`},
		{"second device not closed", ";G0,NVIDIA,1,0:G1,NVIDIA;", `container 1: "G1,NVIDIA" does not end in ":"`},
		{"garbage", "G0,abc,;;", `container 0: "G0,abc," does not end`},
		{"field missing", "G0,NVIDIA,1:;;", "want UUID,NVIDIA,MiB,cores"},
		{"field too many", "G0,NVIDIA,1,0,0:;;", `cores "0,0" is not a whole number`},
		{"no UUID", ",NVIDIA,1,0:;;", "UUID is missing"},
		{"blank in the UUID", "G 0,NVIDIA,1,0:;;", `UUID "G 0" contains ' '`},
		{"long UUID", strings.Repeat("G", 300) + ",NVIDIA,1,0:;;", "has 300 bytes"},
		{"other family", "G0,AMD,1,0:;;", `type "AMD", want NVIDIA`},
		{"no type", "G0,,1,0:;;", `type "", want NVIDIA`},
		{"device twice", "G0,NVIDIA,1,0:G0,NVIDIA,1,0:;;", "device G0 is listed twice"},
		{"no number", "G0,NVIDIA,,0:;;", `MiB "" is not a whole number`},
		{"NaN", "G0,NVIDIA,NaN,0:;;", `MiB "NaN" is not`},
		{"fraction", "G0,NVIDIA,1.5,0:;;", `MiB "1.5" is not`},
		{"exponent", "G0,NVIDIA,1e3,0:;;", `MiB "1e3" is not`},
		{"hexadecimal", "G0,NVIDIA,0x10,0:;;", `MiB "0x10" is not`},
		{"suffix", "G0,NVIDIA,16Gi,0:;;", `MiB "16Gi" is not`},
		{"blank in a number", "G0,NVIDIA, 1,0:;;", `MiB " 1" is not`},
		{"plus", "G0,NVIDIA,+1,0:;;", `MiB "+1" is not`},
		{"negative", "G0,NVIDIA,-1,0:;;", "MiB -1 is out of range: 0 to 8388608"},
		{"bytes as MiB", "G0,NVIDIA,17179869184,0:;;", "MiB 17179869184 is out of range"},
		{"beyond 64 bits", "G0,NVIDIA,18446744073709551617,0:;;", "is not a whole number"},
		{"cores above 100", "G0,NVIDIA,1,101:;;", "cores 101 is out of range: 0 to 100"},
		{"invalid UTF-8", "G\xff,NVIDIA,1,0:;;", "is not UTF-8"},
		{"oversized", strings.Repeat(";", maxText+1), "more than the 262144"},
		{"too many devices", many(maxShares+1) + ";;", "lists 4097 devices, more than 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := DecodeAllocation("NVIDIA", c.text, 2)
			if a != nil {
				t.Errorf("an allocation beside an error: %v", a)
			}
			saysShortly(t, err, c.want)
		})
	}
}

func many(devices int) string {
	var b strings.Builder
	for i := range devices {
		fmt.Fprintf(&b, "G%d,NVIDIA,1,0:", i)
	}
	return b.String()
}

// decode(encode(x)) == x for random allocations.
func TestAllocationProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		a := make(device.Allocation, r.IntN(6))
		for i := range a {
			for d := range r.IntN(4) {
				a[i] = append(a[i], share(fmt.Sprintf("GPU-%d", 2*d+r.IntN(2)), r.Int64N(device.MaxMemoryMiB+1),
					r.Int64N(101)))
			}
		}
		got, err := DecodeAllocation("NVIDIA", EncodeAllocation("NVIDIA", a), len(a))
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("seed %d: got %v, %v, want %v", seed, got, err, a)
		}
	}
}

func FuzzDecodeAllocation(f *testing.F) {
	f.Add("G0,NVIDIA,1024,30:;;G0,NVIDIA,5,0:G1,NVIDIA,5,0:;", 3)
	f.Fuzz(func(t *testing.T, text string, containers int) {
		containers = max(0, containers%64)
		a, err := DecodeAllocation("NVIDIA", text, containers)
		if err != nil {
			return
		}
		if len(a) != containers {
			t.Fatalf("%d entries for %d containers", len(a), containers)
		}
		for _, shares := range a {
			for _, s := range shares {
				if !s.Amount.Within(device.Amount{Slots: 1, MemoryMiB: device.MaxMemoryMiB,
					Cores: 100}) || s.UUID == "" {
					t.Fatalf("accepted %+v", s)
				}
			}
		}
		encoded := EncodeAllocation("NVIDIA", a)
		again, err := DecodeAllocation("NVIDIA", encoded, containers)
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("%q came back as %v, %v, was %v", encoded, again, err, a)
		}
	})
}
