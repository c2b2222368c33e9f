package simulation

import (
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
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// search plays the interleavings of n seeds, the first and those after it, on all processors, until one fails. It returns that one's seed, or 0,
// and how often what happened.
func search(first, n uint64, f flaws) (failed uint64, counts map[string]int) {
	var next, worst atomic.Uint64
	var mu sync.Mutex
	counts = map[string]int{}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			var ts turns
			defer ts.end()
			for worst.Load() == 0 {
				seed := first + next.Add(1) - 1
				if seed >= first+n {
					return
				}
				w := play(seed, f, &ts, nil)
				if w.failure != "" {
					worst.CompareAndSwap(0, seed)
				}
				mu.Lock()
				for what, times := range w.counts {
					counts[what] += times
				}
				counts["steps"] += w.steps
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return worst.Load(), counts
}

// replay plays one interleaving with a transcript.
func replay(seed uint64, f flaws) (transcript, failure string) {
	var ts turns
	defer ts.end()
	var text strings.Builder
	w := play(seed, f, &ts, &text)
	return text.String(), w.failure
}

// Issue "NUMA refit", must hold 7: whatever happens while a container is moved, the answer is right or a refusal,
// and the books are what a recomputation says.
func TestInterleavings(t *testing.T) { // cases 20, 30 and 47 at random
	if seed := number(t, "REFIT_SEED", 0); seed > 0 {
		transcript, failure := replay(seed, flaws{})
		t.Log(transcript)
		if failure != "" {
			t.Fatal(failure)
		}
		return
	}
	n := number(t, "REFIT_INTERLEAVINGS", 10_000)
	seed, counts := search(1, n, flaws{})
	if seed > 0 {
		transcript, failure := replay(seed, flaws{})
		t.Fatalf("%s\n%s\nrepeat with REFIT_SEED=%d", transcript, failure, seed)
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%8d %s", counts[what], what)
	}
}

// A simulation that cannot fail shows nothing.
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
				t.Fatal("nobody noticed")
			}
			_, failure := replay(seed, c.flaws)
			t.Logf("seed %d: %s", seed, failure)
		})
	}
}
