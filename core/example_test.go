package core_test

import (
	"fmt"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
)

// The life of one pod on one card.
func Example() {
	// What the pod asks for, by position: initContainers, then containers.
	classes := phase.Pod{phase.Sidecar, phase.Init, phase.Init, phase.App}
	names := []string{"metrics", "convert", "warm-up", "serve"}
	asks := func(memoryMiB int64) device.Request {
		return device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: memoryMiB}
	}
	pod := &placement.Pod{Classes: classes, Requests: []device.Request{asks(2000), asks(20000), asks(5000),
		asks(10000)}}

	// What the node has: the annotation that a device plugin writes.
	devices, err := wire.DecodeInventory("NVIDIA",
		`[{"id":"GPU-0","count":10,"devmem":24576,"devcore":100,"health":true}]`, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	book := ledger.New()
	book.SetNode(ledger.Node{Name: "node-1", Devices: devices})

	// Placed on the node as the book has it, booked in the same step, and written down: the record that is
	// put on the pod.
	fact := ledger.Pod{UID: "1", Namespace: "team", Name: "model", Node: "node-1", Classes: classes}
	allocation, _, err := book.Assume(fact, func(node *ledger.View) (device.Allocation, error) {
		allocation, reason := placement.Fit(node.Placement(), pod)
		if reason != placement.Fits {
			return nil, fmt.Errorf("%v", reason)
		}
		return allocation, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	record := wire.EncodeAllocation("NVIDIA", allocation)
	fmt.Println("record:", record)

	// From here on everything follows from the record and from what the pod's status says.
	fact.Allocation, err = wire.DecodeAllocation("NVIDIA", record, len(classes))
	if err != nil {
		fmt.Println(err)
		return
	}
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	exited := func(from, to int64) phase.State {
		return phase.State{Terminated: true, StartedAt: at(from), FinishedAt: at(to)}
	}
	running := func(from int64) phase.State { return phase.State{Running: true, StartedAt: at(from)} }
	observe := func(what string, sandbox phase.Sandbox, readyAt int64, states ...phase.State) {
		progress := classes.Progress(phase.Status{
			Sandbox: sandbox, SandboxReadyAt: at(readyAt),
			State: func(position int) phase.State { return states[position] },
		})
		fact.First = classes.First(progress, phase.PerInit)
		next := "the steady state"
		if position := classes.InitPosition(fact.First); position >= 0 {
			next = names[position]
		}
		book.Observe(fact)
		fmt.Printf("%s: from %s on %d MiB\n", what, next, book.Node("node-1").Held[0].MemoryMiB)
	}
	waits := phase.State{}
	observe("bound", phase.SandboxUnknown, 0, waits, waits, waits, waits)
	observe("convert runs", phase.SandboxReady, 10, running(11), running(12), waits, waits)
	observe("convert has exited", phase.SandboxReady, 10, running(11), exited(12, 20), running(21), waits)
	observe("serve runs", phase.SandboxReady, 10, running(11), exited(12, 20), exited(21, 30), running(31))
	// The node was rebooted. What ran before still shows its old state.
	observe("no sandbox", phase.SandboxNotReady, 0, exited(11, 90), exited(12, 20), exited(21, 30), exited(31, 90))
	observe("a new sandbox", phase.SandboxReady, 99, running(100), running(101), exited(21, 30), exited(31, 90))

	_, err = book.Remove("1")
	fmt.Println("deleted:", len(book.Pods()), "pods in the book,", err)
	// Output:
	// record: GPU-0,NVIDIA,2000,0:;GPU-0,NVIDIA,20000,0:;GPU-0,NVIDIA,5000,0:;GPU-0,NVIDIA,10000,0:;
	// bound: from convert on 22000 MiB
	// convert runs: from convert on 22000 MiB
	// convert has exited: from warm-up on 12000 MiB
	// serve runs: from the steady state on 12000 MiB
	// no sandbox: from convert on 22000 MiB
	// a new sandbox: from convert on 22000 MiB
	// deleted: 0 pods in the book, <nil>
}
