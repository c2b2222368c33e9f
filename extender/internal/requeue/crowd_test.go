package requeue

import (
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// crowd is a shop whose nodes are full, and so many pods that were refused on all of them. Each node holds
// ten pods of 1000 MiB, "h<node>-<k>".
func crowd(tb testing.TB, nodes, pods int, mib func(i int) int64) (*fixture, []string, map[string]*podrequest.Request) {
	tb.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprint("n", i))
	}
	f := newFixture(names...)
	f.after = func(time.Duration, func()) {}
	for n, node := range names {
		for k := range 10 {
			f.hold(fmt.Sprintf("h%d-%d", n, k), node, 1000)
		}
	}
	all := map[string]*podrequest.Request{}
	for i := range pods {
		p := wants(fmt.Sprint("p", i), mib(i))
		all[p.Name] = p
		f.refuse(p, names...)
	}
	return f, names, all
}

// settle has everything answered that was nudged, as kube-scheduler would: each pod is tried again and, if it
// fits, bound. It returns who was nudged.
func (f *fixture) settle(all map[string]*podrequest.Request, nodes []string) (nudged []string) {
	for f.run() || len(f.nudged) > 0 {
		now := f.nudged
		f.nudged = nil
		nudged = append(nudged, now...)
		for _, name := range now {
			f.try(all[name], nodes)
		}
	}
	return nudged
}

// Of 10,000 pods that wait, a release wakes those that it has room for and no others, each once; a
// thousand releases that have room for nobody wake nobody; and before one that was nudged has answered,
// nobody else is nudged for its room.
func TestCrowd(t *testing.T) {
	const nodes, pods = 50, 10_000
	f, names, all := crowd(t, nodes, pods, func(i int) int64 { return []int64{2000, 3000}[i%2] })
	total := 0
	for n := range nodes {
		f.leave(fmt.Sprintf("h%d-0", n)) // 1000 MiB: too little for anybody
		if got := f.settle(all, names); got != nil {
			t.Fatalf("%v nudged, and nobody fits", got)
		}
		f.leave(fmt.Sprintf("h%d-1", n)) // 2000 MiB: room for one of the smaller
		f.run()
		for range 3 { // others say that something was released there, before the pod has answered
			f.NodeFreed(names[n])
			f.run()
		}
		if len(f.nudged) != 1 {
			t.Fatalf("%d pods nudged for room for one", len(f.nudged))
		}
		got := f.settle(all, names)
		if len(got) != 1 || f.book.Pod(got[0]) == nil {
			t.Fatalf("%v nudged for room for one", got)
		}
		total += len(got)
	}
	if total != nodes || f.Waiting() != pods-nodes {
		t.Errorf("%d nudges, and %d pods wait, of %d pods and room for %d", total, f.Waiting(), pods, nodes)
	}
}

// Releases at random, answers at random and late: at no moment are there more pods nudged than would fit, and
// no pod is nudged twice without having been refused between.
func TestCrowdAtRandom(t *testing.T) {
	const nodes, pods = 8, 2000
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	f, names, all := crowd(t, nodes, pods, func(int) int64 { return int64(1000 * (1 + r.Intn(3))) })
	holders := r.Perm(nodes * 10)
	open := map[string]bool{}
	for len(holders) > 0 || len(open) > 0 {
		switch {
		case len(holders) > 0 && r.Intn(3) > 0:
			f.leave(fmt.Sprintf("h%d-%d", holders[0]/10, holders[0]%10))
			holders = holders[1:]
		default:
			for name := range open {
				delete(open, name)
				// Where it was nudged for, if that is free still: elsewhere it would take another's room.
				f.try(all[name], append([]string{f.Queue.nudged[name].node}, names...))
				break
			}
		}
		f.run()
		for _, name := range f.nudged {
			if open[name] {
				t.Fatalf("%s is nudged again before it has answered", name)
			}
			open[name] = true
		}
		f.nudged = nil
		want, free := int64(0), int64(0)
		for name := range open {
			want += all[name].Charges["NVIDIA"].MemoryMiB
		}
		for _, n := range names {
			free += 10000 - f.book.Node(n).Held[0].MemoryMiB
		}
		if want > free {
			t.Fatalf("pods of %d MiB are nudged for %d MiB", want, free)
		}
	}
	for _, p := range f.refused {
		for _, n := range names {
			if fits(p.Request, f.book.Node(n)) {
				t.Fatalf("%s waits and fits on %s", p.Name, n)
			}
		}
	}
}

// What pods of a namespace write into their annotations, the extender need not remember: neither much of it in
// all, nor for long.
func TestHugeSelectorsAreBounded(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 10000)
	huge := func(name string) *podrequest.Request {
		p := wants(name, 1000)
		p.Placement.Selector.UseUUIDs = []string{string(make([]byte, 1<<18))}
		p.SelectorBytes = 1 << 18
		return p
	}
	before := heap()
	for i := range 2000 { // half a gigabyte
		f.refuse(huge(fmt.Sprint("huge", i)), "n")
	}
	if used := heap() - before; used > 2*MaxSelectorBytes {
		t.Errorf("%d MiB are used for pods with huge selectors", used>>20)
	}
	if f.Waiting() != MaxSelectorBytes>>18 {
		t.Errorf("%d wait", f.Waiting())
	}
	f.refuse(wants("ordinary", 1000), "n")
	for i := range 2000 {
		f.Remove(fmt.Sprint("huge", i))
	}
	f.refuse(huge("later"), "n")
	if f.Waiting() != 2 || f.selectorBytes != 1<<18 {
		t.Errorf("%d wait, with %d bytes of selectors", f.Waiting(), f.selectorBytes)
	}
	f.leave("h")
	f.want(t, "ordinary")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A pass over pods of ever other shapes, with room in their namespace's quota and none on any of many nodes,
// ends after so many tries.
func TestPassIsBounded(t *testing.T) {
	const nodes, pods = 2000, 200
	f, _, _ := crowd(t, nodes, pods, func(i int) int64 { return int64(2000 + i) })
	f.book.Limit(1 << 40)
	f.free("", "ns")
	if tries := f.pass(); tries != MaxTries || f.nudged != nil {
		t.Errorf("%d placements tried, want %d and no more; nudged %v", tries, MaxTries, f.nudged)
	}
}

// Pods of one kind do not each try what one of them has tried.
func TestGroupsAreTriedOnce(t *testing.T) {
	const nodes, pods = 20, 1000
	f, _, _ := crowd(t, nodes, pods, func(i int) int64 { return int64(2000 + i%3) })
	for n := range nodes {
		f.NodeFreed(fmt.Sprint("n", n))
	}
	if tries := f.pass(); tries != nodes*3 || f.nudged != nil {
		t.Errorf("%d placements tried, want %d; nudged %v", tries, nodes*3, f.nudged)
	}
}

// BenchmarkPass is a release for which none of so many refused pods fits: on one node, and in a namespace with
// 1,000 nodes.
func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{1000, 10_000} {
		f, names, _ := crowd(b, 1000, pods, func(i int) int64 { return int64(2000 + i%7) })
		for what, release := range map[string]func(){
			"node":      func() { f.NodeFreed(names[7]) },
			"namespace": func() { f.free("", "ns") },
		} {
			b.Run(fmt.Sprintf("%s/pods=%d", what, pods), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					release()
					if !f.run() || f.nudged != nil {
						b.Fatal("somebody fits, or no pass was due")
					}
				}
			})
		}
	}
}

// try is a Filter and a Bind of a pod on the nodes.
func (f *fixture) try(p *podrequest.Request, nodes []string) {
	mark := f.FilterStarts()
	for _, n := range nodes {
		facts := p.Ledger
		facts.Node = n
		_, _, err := f.book.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
			var scratch placement.Scratch
			if _, refusal := nodefit.Fit(&scratch, p, v, "", nil); refusal.Refused() {
				return nil, errors.New(refusal.Reason)
			}
			return scratch.Allocation(), nil
		})
		if err == nil {
			f.FilterEnds(mark, p, nil)
			f.Remove(p.UID) // the watch shows it bound
			return
		}
	}
	f.FilterEnds(mark, p, nodes)
}
