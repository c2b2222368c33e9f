package kube_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/baseline"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// BenchmarkLedgerPod reads what the books need of a pod. The baseline reads its annotation.
func BenchmarkLedgerPod(b *testing.B) {
	pod := baseline.New(1, 1).Pods[0]
	b.Run("by=phasegpu", func(b *testing.B) {
		for b.Loop() {
			if p := kube.LedgerPod(pod, phase.PerInit); len(p.Allocation) != 3 {
				b.Fatal(p.Unreadable)
			}
		}
	})
	b.Run("by=peer", func(b *testing.B) {
		for b.Loop() {
			if len(baseline.Record(pod)) != 3 {
				b.Fatal("unread")
			}
		}
	})
}

// BenchmarkRebuild makes the whole ledger anew, as at start-up: 5,000 nodes and 40,000 pods, from the objects that
// a watch delivers to the books; and with what comes before, the API server's list of pods in protobuf decoded and
// each pod reduced. The baseline adds up the annotations of the same pods, as it does on every question.
// Budget (docs/design.md, section 9): 500 ms.
func BenchmarkRebuild(b *testing.B) {
	const nodes, perNode = 5000, 8
	const chunk = 500 // pods in a part of the list, as an informer asks for it
	cluster := sync.OnceValue(func() *baseline.Cluster { return baseline.New(nodes, perNode) })
	objects := sync.OnceValue(func() []*corev1.Node {
		nodes, err := cluster().Objects()
		if err != nil {
			b.Fatal(err)
		}
		return nodes
	})
	lists := sync.OnceValue(func() [][]byte {
		var lists [][]byte
		for pods := range slices.Chunk(cluster().Pods, chunk) {
			list := corev1.PodList{}
			for _, p := range pods {
				list.Items = append(list.Items, *p)
			}
			data, err := list.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			lists = append(lists, data)
		}
		return lists
	})
	decoded := func(b *testing.B, each func(p *corev1.Pod)) {
		for _, data := range lists() {
			var list corev1.PodList
			if err := list.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
			for i := range list.Items {
				each(&list.Items[i])
			}
		}
	}
	books := func(b *testing.B, pods func(each func(p *corev1.Pod))) {
		all := objects()
		lists()
		for b.Loop() {
			book := ledger.New()
			for _, n := range all {
				book.SetNode(kube.Node(n))
			}
			pods(func(p *corev1.Pod) { book.Observe(kube.LedgerPod(p, phase.PerInit)) })
			if n := book.Generation(); n != nodes+nodes*perNode {
				b.Fatalf("%d changes", n)
			}
		}
	}
	name := fmt.Sprintf("pods=%d", nodes*perNode)
	b.Run("from=objects/"+name+"/by=phasegpu", func(b *testing.B) {
		books(b, func(each func(p *corev1.Pod)) {
			for _, p := range cluster().Pods {
				each(p)
			}
		})
	})
	b.Run("from=objects/"+name+"/by=peer", func(b *testing.B) {
		a := cluster().Accountant()
		for b.Loop() {
			a.Sum()
		}
	})
	b.Run("from=list/"+name+"/by=phasegpu", func(b *testing.B) {
		books(b, func(each func(p *corev1.Pod)) {
			decoded(b, func(p *corev1.Pod) {
				reduced, _ := kube.Transform(p)
				each(reduced.(*corev1.Pod))
			})
		})
	})
	b.Run("from=list/"+name+"/by=peer", func(b *testing.B) {
		lists()
		for b.Loop() {
			c := baseline.Cluster{}
			decoded(b, func(p *corev1.Pod) { c.Pods = append(c.Pods, p) })
			c.Accountant().Sum()
		}
	})
}

// BenchmarkTrackedPod tells the bytes that a pod with devices takes: in the watch's cache, as it came in protobuf
// and was reduced, and in the books. The baseline keeps the pod as it came.
func BenchmarkTrackedPod(b *testing.B) {
	const nodes, perNode = 500, 8
	cached := func(b *testing.B, keep func(p *corev1.Pod) *corev1.Pod) {
		c := baseline.New(nodes, perNode)
		var list [][]byte
		for _, p := range c.Pods {
			data, err := p.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			list = append(list, data)
		}
		c.Pods = nil
		before := heap()
		store := map[string]*corev1.Pod{}
		for _, data := range list {
			p := &corev1.Pod{}
			if err := p.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
			store[p.Namespace+"/"+p.Name] = keep(p)
		}
		b.ReportMetric((heap()-before)/float64(len(list)), "B/pod")
		b.ReportMetric(0, "ns/op") // of the collector
		runtime.KeepAlive(list)
		runtime.KeepAlive(store)
	}
	b.Run("by=phasegpu", func(b *testing.B) {
		book := ledger.New()
		for _, n := range baseline.New(nodes, 0).Nodes {
			book.SetNode(n)
		}
		cached(b, func(p *corev1.Pod) *corev1.Pod {
			reduced, _ := kube.Transform(p)
			book.Observe(kube.LedgerPod(reduced.(*corev1.Pod), phase.PerInit))
			return reduced.(*corev1.Pod)
		})
		runtime.KeepAlive(book)
	})
	b.Run("by=peer", func(b *testing.B) { cached(b, func(p *corev1.Pod) *corev1.Pod { return p }) })
}

// heap is the number of bytes in use.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
