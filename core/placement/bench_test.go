package placement

import (
	"fmt"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// benchNode has 8 cards of 40960 MiB, each half used by others.
func benchNode(heldMiB int64) Node {
	var n Node
	for i := range 8 {
		n.Devices = append(n.Devices, device.Device{
			UUID: fmt.Sprintf("GPU-%d", i), Index: i, Family: "NVIDIA", Model: "NVIDIA A100-SXM4-40GB", NUMA: i / 4,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 40960, Cores: 100}, Healthy: true,
		})
		n.Held = append(n.Held, device.Usage{Amount: device.Amount{Slots: int64(i % 3), MemoryMiB: heldMiB + int64(i)*100, Cores: int64(i) * 5}})
	}
	return n
}

func benchPod() *Pod {
	return &Pod{
		Classes: phase.Pod{phase.Init, phase.Sidecar, phase.App},
		Requests: []device.Request{
			{Family: "NVIDIA", Devices: 1, MemoryMiB: 20000, Cores: 30},
			{Family: "NVIDIA", Devices: 1, MemoryMiB: 2000},
			{Family: "NVIDIA", Devices: 1, MemoryMiB: 10000, Cores: 20},
		},
	}
}

// sumOfContainers is what most schedulers do: each container takes its own room, one after the other,
// as if all of them ran at once.
func sumOfContainers(n Node, p *Pod) bool {
	var taken [8]device.Amount
	for _, r := range p.Requests {
		found := 0
		for d := range n.Devices {
			dev, held := &n.Devices[d], &n.Held[d]
			ask := r.On(dev.Capacity.MemoryMiB)
			if found == r.Devices || dev.Family != r.Family || !dev.Healthy || dev.Cordoned || dev.Mode == device.MIG ||
				held.Slots+taken[d].Slots+ask.Slots > dev.Capacity.Slots ||
				held.MemoryMiB+taken[d].MemoryMiB+ask.MemoryMiB > dev.Capacity.MemoryMiB ||
				held.Cores+taken[d].Cores+ask.Cores > dev.Capacity.Cores {
				continue
			}
			taken[d] = device.Amount{Slots: taken[d].Slots + ask.Slots, MemoryMiB: taken[d].MemoryMiB + ask.MemoryMiB, Cores: taken[d].Cores + ask.Cores}
			found++
		}
		if found < r.Devices {
			return false
		}
	}
	return true
}

func BenchmarkFit(b *testing.B) {
	p := benchPod()
	roomy, full := benchNode(0), benchNode(30000)
	want := func(b *testing.B, r, want Reason) {
		if r != want {
			b.Fatalf("got %v, want %v", r, want)
		}
	}
	b.Run("sum-of-containers-baseline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !sumOfContainers(roomy, p) {
				b.Fatal("does not fit")
			}
		}
	})
	b.Run("fit", func(b *testing.B) {
		b.ReportAllocs()
		var s Scratch
		for b.Loop() {
			_, r := s.Fit(roomy, p)
			want(b, r, Fits)
		}
	})
	b.Run("rate", func(b *testing.B) {
		b.ReportAllocs()
		var s Scratch
		for b.Loop() {
			_, r := s.Rate(roomy, p)
			want(b, r, Fits)
		}
	})
	b.Run("refused", func(b *testing.B) {
		b.ReportAllocs()
		var s Scratch
		for b.Loop() {
			_, r := s.Rate(full, p)
			want(b, r, NoMemory)
		}
	})
}

// hardest is the worst of 300,000 random nodes and pods of the guaranteed size by sets tried: each
// container fits alone, unlike cards, and together they do not.
func hardest() (Node, *Pod) {
	var n Node
	for d, held := range []int64{51, 6, 27, 49, 53, 56, 52, 47} {
		n.Devices = append(n.Devices, device.Device{
			UUID: string(rune('a' + d)), Index: d, Family: "NVIDIA", Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 100, Cores: 100},
		})
		n.Held = append(n.Held, device.Usage{Amount: device.Amount{Slots: 1, MemoryMiB: held}})
	}
	p := &Pod{Classes: phase.Pod{phase.App, phase.Sidecar, phase.Init, phase.Sidecar}}
	for i, memory := range []int64{37, 35, 14, 18} {
		p.Requests = append(p.Requests, device.Request{Family: "NVIDIA", Devices: []int{4, 5, 4, 4}[i], MemoryMiB: memory})
	}
	return n, p
}

func BenchmarkHardest(b *testing.B) {
	b.ReportAllocs()
	n, p := hardest()
	var s Scratch
	for b.Loop() {
		if _, r := s.Fit(n, p); r == Fits {
			b.Fatal("fits")
		}
	}
	b.ReportMetric(float64(s.search.trials), "trials")
}
