package soak_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// short is how long it takes without SOAK.
const short = 25 * time.Second

// eventsKept is how long, at most, client-go's recorder keeps an event, to aggregate similar ones. Until then memory
// grows with every event; afterwards as many are dropped as are added.
const eventsKept = 12 * time.Minute

// TestSoak has pods come, run again and go at random. Every minute, or ten times if that is sooner, all actions pause,
// and the books must equal a recomputation from the API server's pods; and from the first third of the time to the last
// the extender's memory must not grow. Kept events must not hide that: a long run measures only after eventsKept, a
// short one writes no events. In the end nothing is reserved.
func TestSoak(t *testing.T) {
	const nodes, lanes = 8, 24
	took := short
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		if took, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SOAK: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, for %v", seed, took)
	args, warm := []string{"--pprof"}, eventsKept
	if took < 2*eventsKept {
		args, warm = append(args, "--events="), 0
	}
	s := stack.StartT(t, stack.Options{ExtenderArgs: args, Scheduler: stack.Patient})
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		must(t, s.Sim.AddNode(t.Context(), nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 2, 24576)}))
	}
	l := &life{Stack: s, namespaces: []string{"free", "limited"}}
	for _, namespace := range l.namespaces {
		must(t, s.Namespace(t.Context(), namespace))
	}
	must(t, s.Quota(t.Context(), "limited", "team", stack.Limit{"limits.nvidia.com/gpumem": "120000"}))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l.start(ctx, lanes, seed)
	var samples []sample
	tick := time.NewTicker(min(time.Minute, took/10))
	defer tick.Stop()
	start := time.Now()
	for time.Since(start) < took {
		select {
		case err := <-l.errs:
			t.Fatal(err)
		case <-tick.C:
		}
		now, err := l.look(ctx)
		must(t, err)
		t.Logf("%v", now)
		if time.Since(start) >= warm {
			samples = append(samples, now)
		}
	}
	stop()
	l.lanes.Wait()
	flat(t, samples)

	for _, namespace := range l.namespaces {
		must(t, s.Clear(t.Context(), namespace))
	}
	must(t, s.AwaitAudit(t.Context()))
	must(t, stack.Eventually(t.Context(), "nothing is left", func(ctx context.Context) error {
		books, err := s.Ledger(ctx)
		if err == nil && len(books.Reserved())+len(books.Used())+len(books.Gates) > 0 {
			err = fmt.Errorf("reserved %v, used %v, gates %v", books.Reserved(), books.Used(), books.Gates)
		}
		return err
	}))
}

// look compares the books while nothing happens, and measures.
func (l *life) look(ctx context.Context) (sample, error) {
	l.quiet.Lock()
	defer l.quiet.Unlock()
	l.Sim.Freeze()
	defer l.Sim.Thaw()
	if err := l.Scheduler.Signal(syscall.SIGSTOP); err != nil {
		return sample{}, fmt.Errorf("kube-scheduler does not run: %w", err)
	}
	err := l.AwaitAudit(ctx)
	if err := errors.Join(err, l.Scheduler.Signal(syscall.SIGCONT)); err != nil {
		return sample{}, err
	}
	return l.measure(ctx)
}

// sample is the extender at one moment, and what has happened up to then.
type sample struct {
	heap, goroutines                      float64
	created, denied, reran, ended, nudged int64
}

func (s sample) String() string {
	const format = "books are right; heap %.1f MiB, %v goroutines; " +
		"%d pods created, %d denied, %d reruns, %d deleted, %d nudges"
	return fmt.Sprintf(format,
		s.heap/(1<<20), s.goroutines, s.created, s.denied, s.reran, s.ended, s.nudged)
}

func (l *life) measure(ctx context.Context) (sample, error) {
	if _, err := l.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil { // collects garbage
		return sample{}, err
	}
	metrics, err := l.ExtenderMetrics(ctx)
	if err != nil {
		return sample{}, err
	}
	var errs []error
	value := func(series string) float64 {
		text, ok := stack.Metric(metrics, series)
		n, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			errs = append(errs, fmt.Errorf("the extender's metric %s is %q", series, text))
		}
		return n
	}
	return sample{
		heap: value("go_memstats_heap_alloc_bytes"), goroutines: value("go_goroutines"),
		created: l.created.Load(), denied: l.denied.Load(), reran: l.reran.Load(), ended: l.ended.Load(),
		nudged: int64(value(`phasegpu_nudges_total{result="nudged"}`)),
	}, errors.Join(errs...)
}

// flat compares the last third of the samples with the first. What a scrape, a request or a burst of pods
// takes for a moment is allowed for.
func flat(t *testing.T, samples []sample) {
	t.Helper()
	third := len(samples) / 3
	if third == 0 {
		t.Fatalf("only %d samples", len(samples))
	}
	middle := func(some []sample, of func(sample) float64) float64 {
		var all []float64
		for _, s := range some {
			all = append(all, of(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, c := range []struct {
		what        string
		of          func(sample) float64
		most, floor float64 // the last third may be so much of the first, and so much more
	}{
		{"bytes of heap", func(s sample) float64 { return s.heap }, 1.1, 1 << 19},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 1.2, 20},
	} {
		first, last := middle(samples[:third], c.of), middle(samples[len(samples)-third:], c.of)
		t.Logf("%s: %.0f in the first third, %.0f in the last", c.what, first, last)
		if last > first*c.most+c.floor {
			t.Errorf("%s grew from %.0f to %.0f", c.what, first, last)
		}
	}
	if n := samples[len(samples)-1]; n.created < 20 || n.reran == 0 || n.ended == 0 {
		t.Errorf("too little has happened: %v", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
