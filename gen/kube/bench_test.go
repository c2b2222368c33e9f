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

// BenchmarkFeedMemory tells the bytes that a feed and its book take for a pod with devices and for one without,
// of 10,000 and 100,000. The baseline is a cache of 10,000 such pods each, as they come in protobuf.
func BenchmarkFeedMemory(b *testing.B) {
	report := func(b *testing.B, plain, tracked int, footprint func(plain, tracked int) int) {
		without := footprint(plain, 0)
		both := footprint(plain, tracked)
		b.ReportMetric(max(0, float64(without)/float64(plain)), "B/pod-without") // the heap has lost some by chance
		b.ReportMetric(float64(both-without)/float64(tracked), "B/pod")
		b.ReportMetric(0, "ns/op") // of the collector
	}
	b.Run("by=phasegpu", func(b *testing.B) {
		empty := footprint(b, 0, 0)
		report(b, 100_000, 10_000, func(plain, tracked int) int { return footprint(b, plain, tracked) - empty })
	})
	b.Run("by=peer", func(b *testing.B) {
		report(b, 10_000, 10_000, func(plain, tracked int) int {
			before := heap()
			store := map[string]*corev1.Pod{}
			for i := range plain + tracked {
				data, err := realistic(i, i < tracked).Marshal()
				p := &corev1.Pod{}
				if err == nil {
					err = p.Unmarshal(data)
				}
				if err != nil {
					b.Fatal(err)
				}
				store[p.Namespace+"/"+p.Name] = p
			}
			used := heap() - before
			runtime.KeepAlive(store)
			return used
		})
	})
}
