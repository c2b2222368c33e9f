package simulation

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// number reads a number from the environment.
func number(t *testing.T, name, otherwise string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(name), otherwise), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// search plays the interleavings of n seeds from the first on, on all processors, until one fails. It returns that
// one's seed, or 0, and how often each event happened.
func search(first, n uint64, f flaws) (failed uint64, counts map[string]int) {
	var next, worst atomic.Uint64
	var mu sync.Mutex
	counts = map[string]int{}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for worst.Load() == 0 {
				seed := first + next.Add(1) - 1
				if seed >= first+n {
					return
				}
				sim := play(seed, f, nil)
				if sim.failure != "" {
					worst.CompareAndSwap(0, seed)
				}
				mu.Lock()
				for what, times := range sim.counts {
					counts[what] += times
				}
				counts["steps"] += sim.steps
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return worst.Load(), counts
}

// replay plays one interleaving with a transcript.
func replay(seed uint64, f flaws) (transcript, failure string) {
	var text strings.Builder
	sim := play(seed, f, &text)
	return text.String(), sim.failure
}

// Whatever happens while a container is moved, the answer is right or a refusal, and the books equal a recomputation.
func TestInterleavings(t *testing.T) {
	if seed := number(t, "REFIT_SEED", "0"); seed > 0 {
		if transcript, failure := replay(seed, flaws{}); failure != "" {
			t.Fatal(transcript, failure)
		} else {
			t.Log(transcript)
		}
		return
	}
	n := number(t, "REFIT_INTERLEAVINGS", "10000")
	seed, counts := search(1, n, flaws{})
	if seed > 0 {
		transcript, failure := replay(seed, flaws{})
		t.Fatalf("%s\n%s\nrepeat with REFIT_SEED=%d", transcript, failure, seed)
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%8d %s", counts[what], what)
	}
}

// The simulation notices defects.
func TestFlawsAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name  string
		first uint64 // seed, not far from one that notices
		flaws flaws
	}{
		{"patches without precondition", 1, flaws{noPrecondition: true}},
		{"binding past the gate", 1, flaws{noGate: true}},
		{"identical pods beside one that may move", 650, flaws{together: true}},
		{"a book that misses changed records", 1, flaws{deaf: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed, _ := search(c.first, 10_000, c.flaws)
			if seed == 0 {
				t.Fatal("it was not noticed")
			}
			_, failure := replay(seed, c.flaws)
			t.Logf("seed %d: %s", seed, failure)
		})
	}
}
