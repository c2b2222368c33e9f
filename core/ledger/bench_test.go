package ledger

import (
	"fmt"
	"runtime"
	"sync"
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
			UUID: fmt.Sprintf("GPU-%08x-483b-b48f-d7e5-%012x", uint32(i*8+k)*2654435761,
				i), Index: k, Family: "NVIDIA", Healthy: true,
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
		return []device.Share{{UUID: n.Devices[k%8].UUID, Family: fmt.Sprint("NVI", "DIA"),
			Amount: device.Amount{Slots: 1, MemoryMiB: memory, Cores: 10}}}
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

// peerSum is the baseline, what an accountant does who keeps no book: whatever happened, to know what is held
// where is to add up what all containers of all pods hold, as if all of them ran at once.
func peerSum(pods []Pod) map[string]map[string]device.Amount {
	usage := map[string]map[string]device.Amount{}
	for i := range pods {
		node := usage[pods[i].Node]
		if node == nil {
			node = map[string]device.Amount{}
			usage[pods[i].Node] = node
		}
		for _, shares := range pods[i].Allocation {
			for _, s := range shares {
				u := node[s.UUID]
				node[s.UUID] = device.Amount{Slots: u.Slots + s.Amount.Slots,
					MemoryMiB: u.MemoryMiB + s.Amount.MemoryMiB, Cores: u.Cores + s.Amount.Cores}
			}
		}
	}
	return usage
}

func benchPeerSum(b *testing.B, pods []Pod) {
	b.Helper()
	for b.Loop() {
		if len(peerSum(pods)) == 0 {
			b.Fatal("no usage")
		}
	}
}

// BenchmarkObserve observes pods in turn: few of them again and again, and all of them, which costs what the
// machine's caches make of it; as they are known, or each with another phase than before, on nodes of 8 and
// of 80 pods. The baseline is the sum that follows.
func BenchmarkObserve(b *testing.B) {
	full := sync.OnceValue(benchBook)
	for _, n := range []int{40, benchPods} {
		pods := make([]Pod, n)
		for i := range pods {
			pods[i] = benchPod(i * (benchPods / n))
		}
		name := fmt.Sprintf("change=none/pods=%d", n)
		b.Run(name+"/by=phasegpu", func(b *testing.B) {
			book, i := full(), 0
			for b.Loop() {
				book.Observe(pods[i%len(pods)])
				i++
			}
		})
		b.Run(name+"/by=peer", func(b *testing.B) { benchPeerSum(b, pods) })
	}
	for _, perNode := range []int{8, 80} {
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
		name := fmt.Sprintf("change=phase/perNode=%d", perNode)
		b.Run(name+"/by=phasegpu", func(b *testing.B) {
			i := 0
			for b.Loop() {
				p := &pods[i%len(pods)]
				p.First = 1 - p.First
				book.Observe(*p)
				i++
			}
		})
		b.Run(name+"/by=peer", func(b *testing.B) { benchPeerSum(b, pods) })
	}
}

// BenchmarkView reads a node's view, which waits for nobody. The baseline is a map and its lock.
func BenchmarkView(b *testing.B) {
	names := make([]string, benchNodes)
	for i := range names {
		names[i] = benchNode(i).Name
	}
	b.Run("by=phasegpu", func(b *testing.B) {
		book, i := benchBook(), 0
		for b.Loop() {
			if book.Node(names[i%len(names)]) == nil {
				b.Fatal("node is missing")
			}
			i++
		}
	})
	b.Run("by=peer", func(b *testing.B) {
		var lock sync.RWMutex
		views := map[string]*View{}
		for _, name := range names {
			views[name] = &View{Name: name}
		}
		i := 0
		for b.Loop() {
			lock.RLock()
			v := views[names[i%len(names)]]
			lock.RUnlock()
			if v == nil {
				b.Fatal("node is missing")
			}
			i++
		}
	})
}

// BenchmarkBookMemory tells the bytes that 5,000 nodes take, per node, and 40,000 pods on them, per pod. The
// baseline keeps a list of both as they were told.
func BenchmarkBookMemory(b *testing.B) {
	report := func(b *testing.B, node, pod func(i int)) {
		empty := heap()
		for i := range benchNodes {
			node(i)
		}
		nodes := heap()
		for i := range benchPods {
			pod(i)
		}
		b.ReportMetric((nodes-empty)/benchNodes, "B/node")
		b.ReportMetric((heap()-nodes)/benchPods, "B/pod")
		b.ReportMetric(0, "ns/op") // of the collector
	}
	b.Run("by=phasegpu", func(b *testing.B) {
		book := New()
		report(b, func(i int) { book.SetNode(benchNode(i)) }, func(i int) { book.Observe(benchPod(i)) })
		runtime.KeepAlive(book)
	})
	b.Run("by=peer", func(b *testing.B) {
		nodes, pods := map[string]Node{}, map[string]Pod{}
		report(b, func(i int) { n := benchNode(i); nodes[n.Name] = n },
			func(i int) { p := benchPod(i); pods[p.UID] = p })
		runtime.KeepAlive(nodes)
		runtime.KeepAlive(pods)
	})
}

// heap is the number of bytes in use.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
