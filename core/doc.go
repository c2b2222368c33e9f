// Package core is the algebra of phasegpu. It computes what a pod can use of a node's GPUs in each phase of its life,
// on which devices it fits, and what each device and namespace is charged. Facts go in, decisions come out: it knows
// neither Kubernetes nor a clock nor a disk.
//
// It requires nothing but the standard library, so that any scheduler can use it:
//
//	go get github.com/phasegpu/phasegpu/core
//
// # The idea
//
// A pod with init containers does not use at once everything that it asks for. Its init containers run
// one after the other, each to completion, before its apps start; sidecars run beside them from their
// turn on. Take a pod that downloads and converts a model on a GPU before it serves it:
//
//	sidecar  metrics    2000 MiB
//	init     convert   20000 MiB
//	init     warm-up    5000 MiB
//	app      serve     10000 MiB
//
// The sum is 37000 MiB, but no moment ever sees it:
//
//	phase      alive                 MiB
//	convert    metrics + convert   22000
//	warm-up    metrics + warm-up    7000
//	steady     metrics + serve     12000
//
// The pod needs a card with 22000 MiB free, its peak. Once convert has completed it can use at most
// 12000 MiB, so 10000 MiB are free for other pods. If kubelet has to run the
// init containers again, after a reboot for example, the pod can use 22000 MiB again.
//
// What a pod reserves is therefore a function of three things that anyone can read from the API server:
// its spec, the devices recorded when it was bound, and its status. Nothing is remembered, so nothing
// can be released twice, leak, or be forgotten in a crash.
//
// # The packages, in reading order
//
// Each builds on those before it, and the Examples of each are its tutorial:
//
//   - device: amounts, devices, requests, and what a container holds.
//   - phase: the classes of containers, which phases remain by a pod's status, and what they reserve.
//   - placement: on which devices of a node a pod fits, so that no phase exceeds any of them.
//   - ledger: the books of a cluster. A Book takes facts about pods, nodes and quotas, answers with a Delta (what
//     became more or less), and shows each node as an immutable View.
//   - wire: the annotations in which the facts are written, in the formats that HAMi established.
//
// The Example below takes the pod above through all of them: placed, written down, booked, released, and
// raised again when its init containers have to run again.
package core
