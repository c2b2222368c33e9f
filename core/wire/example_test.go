package wire_test

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
)

// The second of three containers has no device and keeps its empty entry.
func ExampleDecodeAllocation() {
	a, err := wire.DecodeAllocation("NVIDIA", "GPU-a,NVIDIA,20480,0:;;GPU-a,NVIDIA,10240,30:GPU-b,NVIDIA,10240,30:;", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for position, shares := range a {
		fmt.Println("container", position)
		for _, s := range shares {
			fmt.Println(" ", s.UUID, s.Amount)
		}
	}
	_, err = wire.DecodeAllocation("NVIDIA", "GPU-a,NVIDIA,16Gi,0:;", 1)
	fmt.Println(err)
	// Output:
	// container 0
	//   GPU-a 1 slots, 20480 MiB, 0% cores
	// container 1
	// container 2
	//   GPU-a 1 slots, 10240 MiB, 30% cores
	//   GPU-b 1 slots, 10240 MiB, 30% cores
	// allocation of container 0: "GPU-a,NVIDIA,16Gi,0": MiB "16Gi" is not a whole number from 0 to 8388608
}

// What is written at bind: a container without a device keeps its place.
func ExampleEncodeAllocation() {
	share := func(uuid string, memoryMiB, cores int64) device.Share {
		return device.Share{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB,
			Cores: cores}}
	}
	fmt.Println(wire.EncodeAllocation("NVIDIA", device.Allocation{
		{share("GPU-a", 20480, 0)},
		{},
		{share("GPU-a", 10240, 30), share("GPU-b", 10240, 30)},
	}))
	// Output:
	// GPU-a,NVIDIA,20480,0:;;GPU-a,NVIDIA,10240,30:GPU-b,NVIDIA,10240,30:;
}

// Both formats of an inventory, whatever the family; this one counts memory in blocks of 256 MiB.
func ExampleDecodeInventory() {
	for _, text := range []string{
		`[{"id":"BI-0","count":4,"devmem":96,"devcore":100,"type":"MR-V100","health":true}]`,
		"BI-0,4,96,100,MR-V100,0,true:",
	} {
		devices, err := wire.DecodeInventory("MR-V100", text, 256)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range devices {
			fmt.Println(d.UUID, d.Model, d.Capacity, d.Mode, d.Healthy)
		}
	}
	// Output:
	// BI-0 MR-V100 4 slots, 24576 MiB, 100% cores hami-core true
	// BI-0 MR-V100 4 slots, 24576 MiB, 100% cores hami-core true
}

func ExampleParsePolicy() {
	_, err := wire.ParsePolicy("pack")
	fmt.Println(err)
	// Output:
	// policy "pack" is unknown: use binpack or spread
}
