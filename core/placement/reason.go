package placement

// Reason is why a pod or container cannot be placed. The set is small and closed, so that kube-scheduler can count
// equal sentences over thousands of nodes.
type Reason uint8

// The reasons, worst first. Up to NotOnOneNUMANode they hold however empty the node becomes. A device is refused for
// the first reason that applies, and a container for the first that leaves it too few devices.
const (
	Fits Reason = iota

	// Of a recorded allocation, by Check and Refit.
	Mismatch      // the record is not what the pod asks for
	PhaseOver     // no phase remains in which the container is alive
	UnknownDevice // a device is not on the node

	NoDevices        // the node has no device of the family
	OtherFamily      // a recorded or allowed device is of another family
	TooFewDevices    // fewer devices of the family than a container asks for
	NotSelected      // the pod's selectors exclude too many of them
	InMIGMode        // MIG devices are not shared
	Unhealthy        // too many are
	Cordoned         // too many are
	NeedsMore        // on a larger card the container's percentage, or the whole, is more than recorded
	CapacityTooSmall // too small even if no other pod held anything
	NotOnOneNUMANode // containers must lie on one NUMA node, and no node has enough devices that could hold them

	NoSlots    // what others hold leaves too few slots
	NoMemory   // what others hold leaves too little memory
	Exclusive  // a holder, or the container itself, asks for all cores
	NoCores    // what others hold leaves too few cores, or none for a container without a limit
	NotAligned // what others hold leaves too little on one NUMA node for containers that inherit device ids
	Fragmented // each container would fit alone, but not all phases together

	reasons // their number
)

// sentences are canonical: kube-scheduler prints "N <sentence>" and adds equal ones up.
var sentences = [reasons]string{
	Fits:             "Fits",
	Mismatch:         "Recorded GPUs differ from what the pod asks for",
	PhaseOver:        "The container's phases are over",
	UnknownDevice:    "GPUs not on the node",
	NoDevices:        "No GPU of the requested family",
	OtherFamily:      "GPUs of another family",
	TooFewDevices:    "Too few GPUs of the requested family",
	NotSelected:      "GPUs excluded by the pod's selectors",
	InMIGMode:        "GPUs in MIG mode",
	Unhealthy:        "Unhealthy GPUs",
	Cordoned:         "Cordoned GPUs",
	NeedsMore:        "GPUs on which the container would need more memory than recorded",
	CapacityTooSmall: "GPUs too small for the pod's phases",
	NotOnOneNUMANode: "Too few GPUs on one NUMA node",
	NoSlots:          "Insufficient GPU slots in the pod's phases",
	NoMemory:         "Insufficient GPU memory in the pod's phases",
	Exclusive:        "GPUs in exclusive use or not free for it",
	NoCores:          "Insufficient GPU cores in the pod's phases",
	NotAligned:       "Insufficient GPUs on one NUMA node for containers that inherit device ids",
	Fragmented:       "Insufficient GPUs for all of the pod's phases together",
}

// Reasons lists every reason but Fits.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := Fits + 1; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}

// String gives the canonical sentence, without the object or numbers.
func (r Reason) String() string {
	if r >= reasons {
		return "Unknown reason"
	}
	return sentences[r]
}

// Unresolvable reports whether the reason holds however empty the node becomes, so that evicting pods
// from it is of no use.
func (r Reason) Unresolvable() bool { return r != Fits && r <= NotOnOneNUMANode }
