package device_test

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
)

// Half a card is a different amount on each card, known only once the card is chosen.
func ExampleRequest_On() {
	half := device.Request{Family: "NVIDIA", Devices: 1, MemoryPercent: 50, Cores: 30}
	fmt.Println(half.MemoryKnown())
	fmt.Println(half.On(40960))
	fmt.Println(half.On(24576))
	// Output:
	// false
	// 1 slots, 20480 MiB, 30% cores
	// 1 slots, 12288 MiB, 30% cores
}

// A book that would go negative shows a release that was counted twice; it is never clamped.
func ExampleAmount_Sub() {
	held := device.Amount{Slots: 1, MemoryMiB: 1024}
	held, err := held.Sub(device.Amount{Slots: 1, MemoryMiB: 1024})
	fmt.Println(held, err)
	_, err = held.Sub(device.Amount{Slots: 1, MemoryMiB: 1024})
	fmt.Println(err)
	// Output:
	// 0 slots, 0 MiB, 0% cores <nil>
	// 0 slots, 0 MiB, 0% cores - 1 slots, 1024 MiB, 0% cores: amount would become negative
}
