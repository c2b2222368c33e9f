// Package placement decides on which devices of a node a pod's containers go.
//
// It is pure: a node is what it has and what others hold there, a pod is its classes and requests, and
// the answer is an allocation or a reason. Feasibility is phase-aware: what must fit on a device is
// what others hold plus the largest phase of this pod there, never the sum of its containers.
package placement

import (
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

// Node is what a pod is placed on: devices, and for each what everybody but the pod holds.
// Devices and Held have the same length and order; both are read only.
type Node struct {
	Devices []device.Device
	Held    []device.Usage
}

// Selector restricts the devices a pod may use. Empty lists restrict nothing. A model matches when it
// contains the word, ignoring case.
type Selector struct {
	UseUUIDs, AvoidUUIDs   []string
	UseModels, AvoidModels []string
}

// Pod is what is placed: one request per container position.
type Pod struct {
	Classes      phase.Pod
	Requests     []device.Request
	Selector     Selector
	NUMABind     bool   // each container's devices lie on one NUMA node
	DevicePolicy Policy // between devices of a node
	NodePolicy   Policy // between nodes
}

// Reason is why a pod or container cannot be placed: a small closed set, so that kube-scheduler can
// aggregate the sentences over thousands of nodes.
type Reason uint8

// The reasons, worst first: those up to Unresolvable hold however empty the node becomes.
const (
	Fits          Reason = iota
	NoDevices            // the node has no device of the family
	TooFewDevices        // fewer devices of the family than a container asks for
	NotSelected          // the pod's selectors exclude too many of them
	InMIGMode            // MIG devices are not shared
	Unhealthy
	Cordoned
	CapacityTooSmall // no set of devices could hold it even if nobody held anything
	NotOnOneNUMANode
	NoSlots // what others hold leaves too few slots
	NoMemory
	NoCores
	Exclusive  // a holder, or the container itself, shares with nobody
	Fragmented // each container would fit alone, but not all phases together
)

// Fit returns an allocation for the pod, or the reason why there is none. The search is exhaustive for
// pods of up to 4 containers with devices on 8 devices: it then finds a placement whenever one exists.
// The result never exceeds a device in any phase.
func Fit(n Node, p *Pod) (device.Allocation, Reason) { panic("not written yet") }
