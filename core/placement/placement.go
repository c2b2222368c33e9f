// Package placement decides on which devices of a node a pod's containers go.
//
// It is pure: a node is what it has and what others hold there, a pod is its classes and requests, and
// the answer is an allocation or a reason. Feasibility is phase-aware: what must fit on a device is
// what others hold plus the largest phase of this pod there, never the sum of its containers.
//
// A device takes a container when it is of the family asked for, healthy, not cordoned, not in MIG mode
// and not excluded by the pod's selectors, and when in every phase in which the container is alive
//
//   - slots, memory and cores, each on its own, hold what others hold and all of the pod's containers
//     alive there;
//   - a container with device.WholeCores is alone there, among others' containers and the pod's own;
//   - a container with 0 cores (no limit) finds less than all cores reserved.
//
// Four questions about one node: Fit, where does the pod go; Score, how good a place is that; Check, does
// what was decided still fit; Refit, could one container go elsewhere. Explain answers the first at length.
//
// Read before: package phase. Read next: package ledger, which knows what others hold.
package placement

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Policy breaks ties between places that fit.
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

// Node is what a pod is placed on: devices, and for each what everybody but the pod holds.
// Devices and Held have the same length and order; both are read only. Nil Held is nobody's.
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

// Selector restricts the devices a pod may use of one family; containers that ask for another family
// are not concerned. Empty lists restrict nothing. A model matches when it contains the word, ignoring
// case.
type Selector struct {
	Family                 string // type word; "" restricts every family
	UseUUIDs, AvoidUUIDs   []string
	UseModels, AvoidModels []string
}

// Pod is what is placed: one request per container position.
//
// With StrictFamily, containers that kubelet gives the ids of earlier init containers to (see chain) have
// their devices on the same NUMA node as those, where a node has enough on one for each of them.
type Pod struct {
	Classes      phase.Pod
	Requests     []device.Request // parallel to Classes
	Selector     Selector
	NUMABind     bool   // each container's devices lie on one NUMA node
	StrictFamily string // type word of the family whose devices lie where kubelet's ids for them do; "" for none
	DevicePolicy Policy // between devices of a node
	NodePolicy   Policy // between nodes
}

// Fit returns an allocation for the pod, or the reason why there is none. The search is exhaustive for
// pods of up to 4 containers with devices on 8 devices (and well beyond, see search): it then finds a
// placement whenever one exists. The result never exceeds a device in any phase, is the same for the
// same input, and has one entry per container position.
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

// Score rates a node on which the pod has been given an allocation, from 0 to 1, by the pod's node
// policy: how full (Binpack) or how empty (Spread) the devices it uses will be at the pod's peak. A
// device's fullness is the mean of its slots', memory's and cores'. Without devices it is 0.
func Score(n Node, p *Pod, a device.Allocation) float64 {
	var s Scratch
	s.load(n, p, 0)
	s.record(a, -1)
	return s.score()
}
