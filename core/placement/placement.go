// Package placement decides on which devices of a node a pod's containers go.
//
// It is pure: a Node is its devices and what other pods hold there, a Pod is its classes and requests, and the answer
// is an allocation or a Reason. What must fit on a device is what other pods hold plus the largest phase of this pod
// there, never the sum of its containers.
//
// A device takes a container when it is of the family asked for, healthy, not cordoned, not in MIG mode
// and not excluded by the pod's selectors, and when in every phase in which the container is alive
//
//   - slots, memory and cores, each on its own, hold what others hold and all of the pod's containers
//     alive there;
//   - a container with device.WholeCores is alone there, among others' containers and the pod's own;
//   - a container with 0 cores (no limit) finds less than all cores reserved.
//
// The questions about one node are:
//
//	Fit      where does the pod go?
//	Score    how good is that node?
//	Check    does an allocation that was decided before still fit?
//	Refit    can one container move to other devices?
//	Explain  why does the pod fit or not, with numbers?
//
// Read before: package phase. Read next: package ledger, which knows what others hold.
package placement

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Policy chooses between nodes, or devices, that fit.
type Policy uint8

// The policies, for nodes and for devices separately.
const (
	Binpack Policy = iota // the fullest that fits
	Spread                // the emptiest
)

// String gives the policy's name on the wire.
func (p Policy) String() string {
	if p == Spread {
		return "spread"
	}
	return "binpack"
}

// Node is where a pod is placed: devices, and what pods other than this one hold of each. Devices and Held have the
// same length and order; both are read only. Nil Held means no device is in use.
type Node struct {
	Devices []device.Device
	Held    []device.Usage
}

// held returns what others hold of device d.
func (n Node) held(d int) device.Usage {
	if d < len(n.Held) {
		return n.Held[d]
	}
	return device.Usage{}
}

// Selector restricts which devices of one family a pod may use. Empty lists restrict nothing. A model matches when it
// contains the word, ignoring case.
type Selector struct {
	Family                 string // type word; "" restricts every family
	UseUUIDs, AvoidUUIDs   []string
	UseModels, AvoidModels []string
}

// Pod is what is placed: one request per container position.
//
// With StrictFamily, containers to which kubelet gives the ids of earlier init containers (see chain) have their
// devices on the same NUMA node as those, if one has enough devices for each of them.
type Pod struct {
	Classes      phase.Pod
	Requests     []device.Request // parallel to Classes
	Selector     Selector
	NUMABind     bool   // each container's devices lie on one NUMA node
	StrictFamily string // type word of the family whose devices lie where kubelet's ids for them do; "" for none
	DevicePolicy Policy // between devices of a node
	NodePolicy   Policy // between nodes
}

// Fit returns an allocation for the pod, with one entry per container position, or the reason why there is none. It
// finds an allocation whenever one exists for pods of up to 4 containers with devices on nodes of 8 devices, and mostly
// beyond (see search). The same input gives the same result.
//
// Callers with many nodes use a Scratch, which allocates nothing.
func Fit(n Node, p *Pod) (device.Allocation, Reason) {
	var s Scratch
	a, r := s.Fit(n, p)
	if r != Fits {
		return nil, r
	}
	for i := range a {
		a[i] = slices.Clip(a[i])
	}
	return a, Fits
}

// Score rates a node for a pod and its allocation there, from 0 to 1, by the pod's node policy: how full (Binpack) or
// how empty (Spread) the devices of the allocation are at the pod's peak. The fullness of a device is the mean of that
// of its slots, memory and cores. Without devices the score is 0.
func Score(n Node, p *Pod, a device.Allocation) float64 {
	var s Scratch
	s.load(n, p, 0)
	s.record(a, -1)
	return s.score()
}
