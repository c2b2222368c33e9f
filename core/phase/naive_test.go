package phase

import (
	"math/rand/v2"

	"github.com/phasegpu/phasegpu/core/device"
)

// The naive twin knows no phases, only a clock. Container i of the pod has its turn at time i; the apps
// have theirs together, at the time after the last init container or sidecar. Every container lives
// over an interval of that clock, and what can run together is what lives at one time.

// naiveEnd is the time of the steady state.
func naiveEnd(p Pod) int {
	end := 0
	for i, c := range p {
		if c != App {
			end = i + 1
		}
	}
	return end
}

// naiveLives reports whether a container lives at a time.
func naiveLives(p Pod, position, time int) bool {
	switch p[position] {
	case Init:
		return time == position
	case Sidecar:
		return time >= position
	default:
		return time == naiveEnd(p)
	}
}

// naiveTimes returns the times that are still to come, or now, once the given number of init
// containers has completed: none when that is more than there are.
func naiveTimes(p Pod, completed int) []int {
	start := 0
	for i, c := range p {
		if c == Init && completed > 0 {
			completed--
			start = i + 1
		}
	}
	if completed > 0 {
		return nil
	}
	var times []int
	for time := start; time <= naiveEnd(p); time++ {
		times = append(times, time)
	}
	return times
}

// naiveFold is the largest sum over what lives at one time, per dimension.
func naiveFold(p Pod, completed int, amounts []device.Amount) device.Amount {
	var most device.Amount
	for _, time := range naiveTimes(p, completed) {
		var sum device.Amount
		for i, a := range amounts {
			if naiveLives(p, i, time) {
				sum = device.Amount{Slots: sum.Slots + a.Slots, MemoryMiB: sum.MemoryMiB + a.MemoryMiB,
					Cores: sum.Cores + a.Cores}
			}
		}
		most = device.Amount{Slots: max(most.Slots, sum.Slots), MemoryMiB: max(most.MemoryMiB, sum.MemoryMiB),
			Cores: max(most.Cores, sum.Cores)}
	}
	return most
}

// randomPod has up to n init containers and sidecars, then up to n apps (sometimes none, which
// Kubernetes refuses and this package does not mind).
func randomPod(r *rand.Rand, n int) Pod {
	var p Pod
	for range r.IntN(n + 1) {
		p = append(p, Class(r.IntN(2)))
	}
	for range r.IntN(n + 1) {
		p = append(p, App)
	}
	return p
}
