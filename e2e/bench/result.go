package bench

import (
	"math"
	"slices"
	"time"
)

// Mode is who binds the pods, and what happens meanwhile.
type Mode struct {
	Extender bool // the pods ask for a GPU each
	// they ask for as much of resources that are nothing to phasegpu: kube-scheduler counts them by itself
	Counted bool
	Inits   bool // init containers finish all the while
}

// Modes lists all, in the order in which they are shown.
func Modes() []Mode {
	return []Mode{{}, {Counted: true}, {Extender: true}, {Inits: true}, {Extender: true, Inits: true}}
}

// String is how a mode is called in tables.
func (m Mode) String() string {
	name := "alone"
	switch {
	case m.Extender:
		name = "extender"
	case m.Counted:
		name = "alone, counting"
	}
	if m.Inits {
		name += ", inits finish"
	}
	return name
}

// Result is what was measured on a cluster of one size.
type Result struct {
	Options
	Bursts map[Mode][]Burst // of each round
	Steady map[Mode]Steady  // empty when there was no steady part
}

// Burst is one round: pods that wait for the scheduler to start.
type Burst struct {
	Bound    []time.Duration // since the first was bound, sorted
	Ran      time.Duration   // since the first was bound, until the last ran
	Finished float64         // init containers per second
	// from the first binding until the last ran: the whole work for the pods, in whatever mode
	Load     Load
	Requests map[Call]float64 // per pod, from its creation until its containers run
}

// Steady is pods that come at a fixed rate.
type Steady struct {
	Waited   []time.Duration // from the creation of each to its binding, sorted
	Finished float64         // init containers per second
	Load     Load
}

// Call is a kind of request to the API server.
type Call struct{ Caller, Verb, Resource string }

// Load is what the processes used.
type Load struct {
	CPU      map[string]float64 // seconds of processor time, by process
	Took     time.Duration
	Resident map[string]int64 // bytes, by process, at the end
}

// PerSecond is how many pods were bound in a second.
func (b *Burst) PerSecond() float64 {
	if len(b.Bound) < 2 || b.Bound[len(b.Bound)-1] <= 0 {
		return math.NaN()
	}
	return float64(len(b.Bound)-1) / b.Bound[len(b.Bound)-1].Seconds()
}

// RanPerSecond is how many pods came to run in a second.
func (b *Burst) RanPerSecond() float64 { return float64(len(b.Bound)) / b.Ran.Seconds() }

// Median is the burst in the middle by PerSecond, of an even number the slower of two.
func Median(bursts []Burst) Burst {
	sorted := slices.SortedFunc(slices.Values(bursts), func(a, b Burst) int {
		if a.PerSecond() < b.PerSecond() {
			return -1
		}
		return 1
	})
	return sorted[(len(sorted)-1)/2]
}

// Quantile is the smallest value that so many percent of the sorted ones do not exceed.
func Quantile(sorted []time.Duration, percent float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(percent/100*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}
