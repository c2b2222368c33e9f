// Package nodesim simulates nodes with GPUs, and on each of them a small kubelet, on a real API server.
//
//	sim, err := nodesim.Start(ctx, cp.Admin(), nodesim.Options{})
//	defer sim.Stop()
//	err = sim.AddNode(ctx, nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 4, 24576)})
//
// A node carries the inventory annotation of each family that its devices belong to, and advertises what
// that family's device plugin would: for most, the count, which is the sum of the replicas (slots) of its
// healthy devices.
//
// # The kubelet
//
// It takes the pods that are bound to its node, one by one in the order in which the API server bound
// them, and admits or rejects each by kubelet's own rules: device plugin resources by the ids that its
// device manager would hand out (ids that an init container got stay with the pod for life), cpu, memory
// and the number of pods by requests. Then it reports the pod (status.startTime) and lives through it as
// kubelet does: sandbox, init containers and sidecars in order, apps, restarts by restartPolicy, terminal
// phase, and deletion after the containers have ended. Every change is one status report; times are whole
// seconds, and a new sandbox is never ready in a second in which something of the old one ended.
//
// # Who says how long a container runs
//
// A container runs until the test ends it:
//
//	sim.Finish(ctx, pod, "load", 0)     // waits until it runs, ends it, returns when that is reported
//
// or for as long as the pod's annotation PlanAnnotation says:
//
//	"load=1,0; train=0@2s"    // load fails, then exits 0; train exits 0 after two seconds
//	"*=0"                     // every container exits 0 at once
//	"load=0; *=hold"          // hold: until Finish; also what no plan names
//
// The last run of a list repeats.
//
// RecreateSandbox, KillPause and RestartAllContainers make init containers run again, in the reports and
// the order that a 1.37 kubelet shows. SetStatus reports any status, and leaves the pod to the test from
// then on. Pause stops a node's kubelet for a while, as if it hung.
//
// # What it saw
//
// Admissions lists, for each node, the pods in the order in which they were admitted, with the allocation
// that their containers would have got. Overlaps lists the moments at which two pods with different
// allocations were between bound and reported on one node, which the extender's gate must not let happen.
package nodesim
