package ledger

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

const (
	benchNodes = 5000
	benchPods  = 40000
)

// benchNode is one of 5,000 nodes of 8 cards.
func benchNode(i int) Node {
	n := Node{Name: fmt.Sprintf("gpu-node-%05d.example.internal", i)}
	for k := range 8 {
		n.Devices = append(n.Devices, device.Device{
			UUID: fmt.Sprintf("GPU-%08x-483b-b48f-d7e5-%012x", uint32(i*8+k)*2654435761, i), Index: k, Family: "NVIDIA", Healthy: true,
			Model: "NVIDIA A100-SXM4-40GB", Capacity: device.Amount{Slots: 10, MemoryMiB: 40960, Cores: 100},
		})
	}
	return n
}

// benchPod is one of 40,000 pods of init, sidecar and app, the init on a card of its own. Its strings
// are as fresh as a watch's.
func benchPod(i int) Pod {
	n := benchNode(i % benchNodes)
	share := func(k int, memory int64) []device.Share {
		return []device.Share{{UUID: n.Devices[k%8].UUID, Family: fmt.Sprint("NVI", "DIA"), Amount: device.Amount{Slots: 1, MemoryMiB: memory, Cores: 10}}}
	}
	k := i / benchNodes
	return Pod{
		UID: fmt.Sprintf("550e8400-e29b-41d4-a716-%012d", i), Namespace: fmt.Sprintf("team-%03d", i%100),
		Name: fmt.Sprintf("training-job-%06d-worker-0", i), Node: n.Name, Version: 1,
		Classes:    phase.Pod{phase.Init, phase.Sidecar, phase.App},
		Allocation: device.Allocation{share(k, 8000), share(k+1, 500), share(k+1, 2000)},
		Scope:      Scope{PriorityClass: fmt.Sprint("batch-", "low")},
	}
}

func benchBook() *Book {
	b := New()
	for i := range benchNodes {
		b.SetNode(benchNode(i))
	}
	for i := range benchPods {
		b.Observe(benchPod(i))
	}
	return b
}

// BenchmarkObserveUnchanged observes few pods again and again, then all of them in turn, which costs
// what the machine's caches make of it.
func BenchmarkObserveUnchanged(b *testing.B) {
	book := benchBook()
	for _, n := range []int{40, benchPods} {
		pods := make([]Pod, n)
		for i := range pods {
			pods[i] = benchPod(i * (benchPods / n))
		}
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				book.Observe(pods[i%len(pods)])
				i++
			}
		})
	}
}

// BenchmarkRebuild is the baseline: what an accountant does who keeps no book and sums every node's
// usage from every pod.
func BenchmarkRebuild(b *testing.B) {
	pods := make([]Pod, benchPods)
	for i := range pods {
		pods[i] = benchPod(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		usage := map[string]map[string]device.Usage{}
		for i := range pods {
			p := &pods[i]
			r, err := p.Classes.Reserved(p.Allocation, p.First)
			if err != nil {
				b.Fatal(err)
			}
			node := usage[p.Node]
			if node == nil {
				node = map[string]device.Usage{}
				usage[p.Node] = node
			}
			for _, h := range r.Devices {
				u := node[h.UUID]
				add(&u, &h.Usage)
				node[h.UUID] = u
			}
		}
	}
}

func BenchmarkObservePhaseChange(b *testing.B) {
	for _, perNode := range []int{8, 80} {
		b.Run(fmt.Sprintf("podsPerNode=%d", perNode), func(b *testing.B) {
			book := New()
			var pods []Pod
			for n := range 100 {
				book.SetNode(benchNode(n))
				for k := range perNode {
					p := benchPod(n + k*benchNodes)
					book.Observe(p)
					pods = append(pods, p)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p := &pods[i%len(pods)]
				p.First = 1 - p.First
				book.Observe(*p)
				i++
			}
		})
	}
}

func BenchmarkNode(b *testing.B) {
	book := benchBook()
	names := make([]string, benchNodes)
	for i := range names {
		names[i] = benchNode(i).Name
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if book.Node(names[i%len(names)]) == nil {
			b.Fatal("node is missing")
		}
		i++
	}
}

// BenchmarkMemory reports the bytes that 40,000 pods on 5,000 nodes take, per pod, beside the nodes.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		book := New()
		for i := range benchNodes {
			book.SetNode(benchNode(i))
		}
		before := heap()
		for i := range benchPods {
			book.Observe(benchPod(i))
		}
		b.ReportMetric((heap()-before)/benchPods, "B/pod")
		runtime.KeepAlive(book)
	}
}
