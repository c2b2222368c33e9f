package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// race lets n pods be assumed at once and returns how many were; the others must fail as said.
func race(t *testing.T, b *Book, n int, refused func(error) bool, place func(*View) (device.Allocation, error)) int {
	t.Helper()
	var won atomic.Int64
	var ready, done sync.WaitGroup
	ready.Add(n)
	for k := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			_, _, err := b.Assume(pod(fmt.Sprint("p", k), "n", phase.Pod{a}), place)
			if err == nil {
				won.Add(1)
			} else if !refused(err) {
				t.Errorf("error %v", err)
			}
		})
	}
	done.Wait()
	return int(won.Load())
}

func TestRacesForTheLastMemory(t *testing.T) {
	noRoom := func(err error) bool { return errors.Is(err, errNoRoom) }
	for range 20 {
		b := New()
		b.SetNode(node("n", 16384, "G"))
		if won := race(t, b, 2, noRoom, put("G", 12000, phase.Pod{a})); won != 1 {
			t.Errorf("%d of 2 pods of 12000 fit on 16384", won)
		}
		b = New()
		b.SetNode(node("n", 20*100+99, "G"))
		if won := race(t, b, 50, noRoom, put("G", 100, phase.Pod{a})); won != 20 {
			t.Errorf("%d of 50 pods fit, want 20", won)
		}
		b = New()
		b.SetNode(node("n", 1<<20, "G"))
		b.SetQuota(limit("q", 10000))
		overQuota := func(err error) bool { var q *QuotaError; return errors.As(err, &q) }
		if won := race(t, b, 2, overQuota, put("G", 6000, phase.Pod{a})); won != 1 {
			t.Errorf("%d of 2 pods of 6000 fit a quota of 10000", won)
		}
	}
}

// TestReadersSeeWholePods moves a pod between two devices and back, with another total: a reader must
// never see anything in between.
func TestReadersSeeWholePods(t *testing.T) {
	b := New()
	b.SetNode(node("n", 40000, "G", "H"))
	p := pod("p", "n", phase.Pod{a}, on("G", 1000))
	q := pod("p", "n", phase.Pod{a}, on("H", 1000), on("H", 1000))
	q.Classes = phase.Pod{i, a}
	q.Allocation[0][0].Amount.MemoryMiB = 3000
	b.Observe(p)
	b.SetQuota(limit("q", 1))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := b.Node("n")
				if g, h := v.Held[0].MemoryMiB, v.Held[1].MemoryMiB; g+h != 1000 && g+h != 3000 || g > 0 && h > 0 {
					t.Errorf("a reader sees %d and %d MiB", g, h)
					return
				}
				if n := b.Namespace("ns"); len(n.Used) != 1 || n.Used[0].MemoryMiB != 1000 && n.Used[0].MemoryMiB != 3000 {
					t.Errorf("a reader sees %+v", n.Used)
					return
				}
				// The pod's own charge and the namespace's sum are of one moment.
				if err := b.CheckQuota("ns", "p", Scope{}, asks(1)); err != nil {
					t.Error(err)
					return
				}
				v.Without("p")
				b.Pods()
				b.Nodes()
				b.Namespaces()
			}
		})
	}
	for range 2000 {
		b.Observe(q)
		b.Observe(p)
	}
	close(stop)
	readers.Wait()
}

// TestReadsDoNotWaitForAssume reads everything from within place, while the book is locked.
func TestReadsDoNotWaitForAssume(t *testing.T) {
	b := New()
	b.SetNode(node("n", 16384, "G"))
	b.SetQuota(limit("q", 1))
	b.Observe(pod("other", "n", phase.Pod{a}, on("G", 1)))
	_, _, err := b.Assume(pod("p", "n", phase.Pod{a}), func(*View) (device.Allocation, error) {
		if b.Node("n") == nil || b.Pod("other") == nil || b.Namespace("ns") == nil {
			t.Error("a reader finds nothing")
		}
		if len(b.Nodes()) != 1 || len(b.Pods()) != 1 || len(b.Namespaces()) != 1 || b.Generation() != 3 || b.Stats() != (Stats{}) {
			t.Error("a reader finds something else")
		}
		if err := b.CheckQuota("ns", "p", Scope{}, asks(1)); err == nil {
			t.Error("the quota has room")
		}
		return nil, errNoRoom
	})
	if !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
}
