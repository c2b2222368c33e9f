package phase_test

import (
	"fmt"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// A sidecar, two init containers and an app, all on one card.
func Example() {
	pod := phase.Pod{phase.Sidecar, phase.Init, phase.Init, phase.App}
	memory := []int64{2000, 20000, 5000, 10000}
	for k := range pod.Len() {
		reserved, err := pod.Fold(k, func(position int) device.Amount {
			return device.Amount{MemoryMiB: memory[position]}
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d init containers complete: %d MiB reserved\n", k, reserved.MemoryMiB)
	}
	// Output:
	// 0 init containers complete: 22000 MiB reserved
	// 1 init containers complete: 12000 MiB reserved
	// 2 init containers complete: 12000 MiB reserved
}

// Who is alive when: each init container in its turn, the sidecar from its own on, the app at the end.
func ExamplePod_Alive() {
	pod := phase.Pod{phase.Init, phase.Sidecar, phase.Init, phase.App}
	names := []string{"load", "cache", "warm", "serve"}
	for k := range pod.Len() {
		name := "steady"
		if position := pod.InitPosition(k); position >= 0 {
			name = names[position]
		}
		fmt.Print(name, ":")
		for position := range pod {
			if pod.Alive(k, position) {
				fmt.Print(" ", names[position])
			}
		}
		fmt.Println()
	}
	// Output:
	// load: load
	// warm: cache warm
	// steady: cache serve
}

// When a pod with three init containers gives back what they needed, under each policy.
func ExamplePod_First() {
	pod := phase.Pod{phase.Init, phase.Init, phase.Init, phase.App}
	for _, release := range []phase.Release{phase.PerInit, phase.AllInits, phase.Hold} {
		fmt.Print(release, ":")
		for completed := range 4 {
			fmt.Print(" ", pod.First(phase.Progress{Inits: completed}, release))
		}
		fmt.Println(", ended:", pod.First(phase.Progress{Inits: 3, Terminal: true}, release) == phase.None)
	}
	// Output:
	// per-init: 0 1 2 3, ended: true
	// all-inits: 0 0 0 3, ended: true
	// hold: 0 0 0 0, ended: true
}

// An init container on one card and the app on another: both cards are charged until the init has
// completed, and the namespace never more than the larger of the two.
func ExamplePod_Reserved() {
	pod := phase.Pod{phase.Init, phase.App}
	share := func(uuid string, memoryMiB int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB}}}
	}
	allocation := device.Allocation{share("GPU-a", 30000), share("GPU-b", 20000)}
	for _, completed := range []int{0, 1} {
		r, err := pod.Reserved(allocation, completed)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range r.Devices {
			fmt.Println(d.UUID, d.MemoryMiB)
		}
		for _, t := range r.Totals {
			fmt.Println(t.Family, "in total", t.MemoryMiB)
		}
	}
	// Output:
	// GPU-a 30000
	// GPU-b 20000
	// NVIDIA in total 30000
	// GPU-b 20000
	// NVIDIA in total 20000
}

// The sandbox was recreated. The first init container has run again; the second still shows the record
// of its first run, which began before the first finished this time, so it does not count.
func ExamplePod_Progress() {
	pod := phase.Pod{phase.Init, phase.Init, phase.App}
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	states := []phase.State{
		{Terminated: true, StartedAt: at(301), FinishedAt: at(310)},
		{Terminated: true, StartedAt: at(111), FinishedAt: at(120)},
		{Terminated: true, StartedAt: at(121), FinishedAt: at(299), ExitCode: 137},
	}
	progress := pod.Progress(phase.Status{
		Sandbox:        phase.SandboxReady,
		SandboxReadyAt: at(300),
		State:          func(position int) phase.State { return states[position] },
	})
	fmt.Println("complete:", progress.Inits)
	fmt.Println("remaining from phase", pod.First(progress, phase.PerInit), "under", phase.PerInit)
	fmt.Println("remaining from phase", pod.First(progress, phase.AllInits), "under", phase.AllInits)
	// Output:
	// complete: 1
	// remaining from phase 1 under per-init
	// remaining from phase 0 under all-inits
}
