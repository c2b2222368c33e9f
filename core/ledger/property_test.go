package ledger

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// play lets a world happen until its tape ends and returns the number of steps; every few steps the
// book must answer every question as its twin, and what it handed out before must not have changed.
func play(t *testing.T, tape []byte, every int) int {
	t.Helper()
	sim := newSimulation(tape)
	var last []string
	steps := 0
	old := picturesOf(sim.book)
	was := old.books()
	for ; len(sim.bytes) > 0; steps++ {
		name, err := sim.step()
		last = append(last, name)
		if err != nil {
			t.Fatalf("step %d, %v: %v", steps, last[max(0, len(last)-8):], err)
		}
		if steps%every != 0 {
			continue
		}
		now := picturesOf(sim.book)
		is := now.books()
		if d := is.diff(sim.twin.books()); d != "" {
			t.Fatalf("step %d, %v: %s", steps, last[max(0, len(last)-8):], d)
		}
		if d := old.books().diff(was); d != "" {
			t.Fatalf("step %d, %v: what was handed out has changed: %s", steps, last[max(0, len(last)-8):], d)
		}
		old, was = now, is
	}
	if err := sim.finish(); err != nil {
		t.Fatalf("after %d steps: %v", steps, err)
	}
	return steps
}

// TestBookEqualsTwin plays random histories of at least 100,000 steps (LEDGER_STEPS sets another
// number) and compares the book with a recomputation from scratch.
func TestBookEqualsTwin(t *testing.T) {
	want := 100_000
	if text := os.Getenv("LEDGER_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LEDGER_STEPS: %v", err)
		}
		want = n
	}
	first := rand.Uint64()
	if text := os.Getenv("LEDGER_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("LEDGER_SEED: %v", err)
		}
		first = n
	}
	for seed := first; want > 0; seed++ {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			var key [32]byte
			copy(key[:], strconv.FormatUint(seed, 10))
			tape := make([]byte, 20_000)
			_, _ = rand.NewChaCha8(key).Read(tape)
			want -= play(t, tape, 25)
		})
		if !ok {
			t.Fatalf("repeat with LEDGER_SEED=%d", seed)
		}
	}
}

// FuzzBookEqualsTwin drives the same histories from the fuzzer's bytes.
func FuzzBookEqualsTwin(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0, 15, 2, 4, 10, 6, 10, 9}, 20))
	f.Fuzz(func(t *testing.T, tape []byte) {
		if len(tape) > 4000 {
			tape = tape[:4000]
		}
		play(t, tape, 1)
	})
}
