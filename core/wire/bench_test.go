package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

// benchAllocation is a pod of init, sidecar and app with a device each.
func benchAllocation() device.Allocation {
	share := func(uuid string, memory int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memory,
			Cores: 10}}}
	}
	const a, b = "GPU-9e3779b1-483b-b48f-d7e5-000000000001", "GPU-9e3779b1-483b-b48f-d7e5-000000000002"
	return device.Allocation{share(a, 8000), share(b, 500), share(b, 2000)}
}

func benchInventory() []device.Device {
	var devices []device.Device
	for i := range 8 {
		devices = append(devices, device.Device{
			UUID: fmt.Sprintf("GPU-9e3779b1-483b-b48f-d7e5-%012d",
				i), Index: i, Family: "NVIDIA", Model: "NVIDIA A100-SXM4-40GB", NUMA: i / 4,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 40960, Cores: 100}, Healthy: true,
		})
	}
	return devices
}

// bench runs one benchmark of this package beside its baseline: the same text by the standard library's
// means, without a check.
func bench(b *testing.B, ours, peer func() bool) {
	for _, side := range []struct {
		by string
		do func() bool
	}{{"phasegpu", ours}, {"peer", peer}} {
		b.Run("by="+side.by, func(b *testing.B) {
			for b.Loop() {
				if !side.do() {
					b.Fatal("another answer than expected")
				}
			}
		})
	}
}

func BenchmarkDecodeAllocation(b *testing.B) {
	text := EncodeAllocation("NVIDIA", benchAllocation())
	bench(b, func() bool {
		a, err := DecodeAllocation("NVIDIA", text, 3)
		return err == nil && len(a) == 3
	}, func() bool {
		var a device.Allocation
		for _, container := range strings.Split(strings.TrimSuffix(text, ";"), ";") {
			var shares []device.Share
			for _, one := range strings.Split(container, ":") {
				if fields := strings.Split(one, ","); len(fields) == 4 {
					memory, _ := strconv.ParseInt(fields[2], 10, 64)
					cores, _ := strconv.ParseInt(fields[3], 10, 64)
					shares = append(shares, device.Share{UUID: fields[0], Family: fields[1],
						Amount: device.Amount{Slots: 1, MemoryMiB: memory, Cores: cores}})
				}
			}
			a = append(a, shares)
		}
		return len(a) == 3
	})
}

func BenchmarkEncodeAllocation(b *testing.B) {
	a := benchAllocation()
	bench(b, func() bool { return EncodeAllocation("NVIDIA", a) != "" }, func() bool {
		text := ""
		for _, shares := range a {
			for _, s := range shares {
				text += fmt.Sprintf("%s,%s,%d,%d:", s.UUID, s.Family, s.Amount.MemoryMiB, s.Amount.Cores)
			}
			text += ";"
		}
		return text != ""
	})
}

func BenchmarkDecodeInventory(b *testing.B) {
	text, err := EncodeInventory(benchInventory())
	if err != nil {
		b.Fatal(err)
	}
	bench(b, func() bool {
		devices, err := DecodeInventory("NVIDIA", text, 1)
		return err == nil && len(devices) == 8
	}, func() bool {
		var entries []inventoryEntry
		err := json.Unmarshal([]byte(text), &entries)
		return err == nil && len(entries) == 8
	})
}
