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

// Neither MiB nor a percentage is the whole card.
func ExampleRequest_On_wholeCard() {
	whole := device.Request{Family: "NVIDIA", Devices: 1, Cores: device.WholeCores}
	fmt.Println(whole.On(24576))
	fmt.Println(device.Request{}.On(24576))
	// Output:
	// 1 slots, 24576 MiB, 100% cores
	// 0 slots, 0 MiB, 0% cores
}

// Each dimension has its own maximum: what two phases need of a device may be neither's need.
func ExampleAmount_Max() {
	convert := device.Amount{Slots: 1, MemoryMiB: 20000, Cores: 10}
	serve := device.Amount{Slots: 2, MemoryMiB: 12000, Cores: 60}
	fmt.Println(convert.Max(serve))
	// Output:
	// 2 slots, 20000 MiB, 60% cores
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
