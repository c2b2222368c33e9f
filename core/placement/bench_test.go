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
		n.Held = append(n.Held, device.Usage{Amount: device.Amount{Slots: int64(i % 3),
			MemoryMiB: heldMiB + int64(i)*100, Cores: int64(i) * 5}})
	}
	return n
}

func benchPod() *Pod { return benchPodOf("isa") }

// benchPodOf is a pod of inits, sidecars and apps, each a letter, with a device each.
func benchPodOf(classes string) *Pod {
	p := &Pod{}
	for _, class := range classes {
		r := device.Request{Family: "NVIDIA", Devices: 1}
		switch class {
		case 'i':
			p.Classes, r.MemoryMiB, r.Cores = append(p.Classes, phase.Init), 20000, 30
		case 's':
			p.Classes, r.MemoryMiB = append(p.Classes, phase.Sidecar), 2000
		default:
			p.Classes, r.MemoryMiB, r.Cores = append(p.Classes, phase.App), 10000, 20
		}
		p.Requests = append(p.Requests, r)
	}
	return p
}

// peerPlace is the baseline, what most schedulers do: each container takes its own room on allowed devices, one
// after the other, as if all of them ran at once.
func peerPlace(n Node, requests []device.Request, allowed func(uuid string) bool) bool {
	var taken [8]device.Amount
	for _, r := range requests {
		found := 0
		for d := range n.Devices {
			dev, held := &n.Devices[d], &n.Held[d]
			ask := r.On(dev.Capacity.MemoryMiB)
			if found == r.Devices || !allowed(dev.UUID) || dev.Family != r.Family || !dev.Healthy || dev.Cordoned || dev.Mode == device.MIG ||
				held.Slots+taken[d].Slots+ask.Slots > dev.Capacity.Slots ||
				held.MemoryMiB+taken[d].MemoryMiB+ask.MemoryMiB > dev.Capacity.MemoryMiB ||
				held.Cores+taken[d].Cores+ask.Cores > dev.Capacity.Cores {
				continue
			}
			taken[d] = device.Amount{Slots: taken[d].Slots + ask.Slots, MemoryMiB: taken[d].MemoryMiB + ask.MemoryMiB,
				Cores: taken[d].Cores + ask.Cores}
			found++
		}
		if found < r.Devices {
			return false
		}
	}
	return true
}

func anyDevice(string) bool { return true }

func must(b *testing.B, ok bool) {
	if !ok {
		b.Fatal("another answer than expected")
	}
}

// BenchmarkFit is one node of 8 devices for pods of 1, 3 and 8 containers, where they fit and where they do
// not.
func BenchmarkFit(b *testing.B) {
	for _, classes := range []string{"a", "isa", "isisiaaa"} {
		p := benchPodOf(classes)
		for _, on := range []struct {
			node string
			Node
			want Reason
		}{{"roomy", benchNode(0), Fits}, {"full", benchNode(31000), NoMemory}} {
			name := fmt.Sprintf("containers=%d/node=%s", len(classes), on.node)
			b.Run(name+"/by=phasegpu", func(b *testing.B) {
				var s Scratch
				for b.Loop() {
					_, r := s.Fit(on.Node, p)
					must(b, r == on.want)
				}
			})
			b.Run(name+"/by=peer", func(b *testing.B) {
				for b.Loop() {
					must(b, peerPlace(on.Node, p.Requests, anyDevice) == (on.want == Fits))
				}
			})
		}
	}
}

// BenchmarkRate is BenchmarkFit with the node's score: what Prioritize asks of every node.
func BenchmarkRate(b *testing.B) {
	p, n := benchPod(), benchNode(0)
	b.Run("containers=3/by=phasegpu", func(b *testing.B) {
		var s Scratch
		for b.Loop() {
			_, r := s.Rate(n, p)
			must(b, r == Fits)
		}
	})
	b.Run("containers=3/by=peer", func(b *testing.B) {
		for b.Loop() {
			must(b, peerPlace(n, p.Requests, anyDevice))
		}
	})
}

// BenchmarkRefit moves the init container of a placed pod to the devices of another NUMA node.
func BenchmarkRefit(b *testing.B) {
	p, n := benchPod(), benchNode(0)
	a, r := Fit(n, p)
	must(b, r == Fits)
	recorded := n.Devices[n.find(a[0][0].UUID)].NUMA
	allowed := func(uuid string) bool { return n.Devices[n.find(uuid)].NUMA != recorded }
	b.Run("containers=3/by=phasegpu", func(b *testing.B) {
		for b.Loop() {
			_, r := Refit(n, p, a, 0, 0, allowed)
			must(b, r == Fits)
		}
	})
	b.Run("containers=3/by=peer", func(b *testing.B) {
		for b.Loop() {
			must(b, peerPlace(n, p.Requests[:1], allowed))
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
		p.Requests = append(p.Requests, device.Request{Family: "NVIDIA", Devices: []int{4, 5, 4, 4}[i],
			MemoryMiB: memory})
	}
	return n, p
}

func BenchmarkHardest(b *testing.B) {
	n, p := hardest()
	b.Run("by=phasegpu", func(b *testing.B) {
		var s Scratch
		for b.Loop() {
			_, r := s.Fit(n, p)
			must(b, r != Fits)
		}
	})
	b.Run("by=peer", func(b *testing.B) {
		for b.Loop() {
			must(b, !peerPlace(n, p.Requests, anyDevice))
		}
	})
}
