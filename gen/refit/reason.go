package refit

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/placement"
)

// Reason is why a container was not moved. Reasons lists all of them.
type Reason string

// The reasons. Reasons gives the meaning and HTTP status of each.
const (
	// About the call.
	PlainHTTP       Reason = "PlainHTTP"
	BadRequest      Reason = "BadRequest"
	TooLarge        Reason = "TooLarge"
	Unauthenticated Reason = "Unauthenticated"
	NotDevicePlugin Reason = "NotDevicePlugin"
	NotBound        Reason = "NotBound"
	OtherNode       Reason = "OtherNode"
	CallerGone      Reason = "CallerGone"

	// About the pod.
	PodGone          Reason = "PodGone"
	PodReplaced      Reason = "PodReplaced"
	BoundElsewhere   Reason = "BoundElsewhere"
	UnknownContainer Reason = "UnknownContainer"
	AlreadyStarted   Reason = "AlreadyStarted"
	NotPending       Reason = "NotPending"
	AnotherInGate    Reason = "AnotherInGate"
	UnknownFamily    Reason = "UnknownFamily"
	NoRefitSupport   Reason = "NoRefitSupport"
	NotRecorded      Reason = "NotRecorded"
	UnreadableRecord Reason = "UnreadableRecord"
	UnreadablePod    Reason = "UnreadablePod"
	RecordMismatch   Reason = "RecordMismatch"
	NotOptedIn       Reason = "NotOptedIn"

	// About the node.
	NodeGone            Reason = "NodeGone"
	UnreadableInventory Reason = "UnreadableInventory"
	UnreadableNeighbour Reason = "UnreadableNeighbour"

	// About the allowed devices: placement's reasons.
	UnknownDevice    Reason = "UnknownDevice"
	OtherFamily      Reason = "OtherFamily"
	TooFewDevices    Reason = "TooFewDevices"
	NotSelected      Reason = "NotSelected"
	InMIGMode        Reason = "InMIGMode"
	Unhealthy        Reason = "Unhealthy"
	Cordoned         Reason = "Cordoned"
	NeedsMore        Reason = "NeedsMore"
	CapacityTooSmall Reason = "CapacityTooSmall"
	NotOnOneNUMANode Reason = "NotOnOneNUMANode"
	NoSlots          Reason = "NoSlots"
	NoMemory         Reason = "NoMemory"
	Exclusive        Reason = "Exclusive"
	NoCores          Reason = "NoCores"
	Fragmented       Reason = "Fragmented"

	// About the write and the API server.
	Conflict    Reason = "Conflict"
	TooLate     Reason = "TooLate"
	Unavailable Reason = "Unavailable"
	Internal    Reason = "Internal"
)

// Fact describes a reason.
type Fact struct {
	Reason Reason
	Status int  // HTTP
	Again  bool // the answer may change although the pod, node and deployment stay the same
	Means  string
}

// Reasons returns all reasons, in the order of the constants.
func Reasons() []Fact {
	return []Fact{
		{PlainHTTP, 400, false, "The connection is not TLS."},
		{BadRequest, 400, false, "The body is not this JSON object, has unknown fields, or a value out of bounds."},
		{TooLarge, 413, false, "The body is larger than 512 KiB."},
		{Unauthenticated, 401, false, "There is no bearer token, or the API server rejects it for this audience."},
		{NotDevicePlugin, 403, false, "The token belongs to another service account than the device plugin's."},
		{NotBound, 403, false, "The token is not bound to a pod and its node, as projected tokens are."},
		{OtherNode, 403, false, "The token is bound to another node than the one asked for."},
		{CallerGone, 403, false, "The token's pod is gone, was replaced, or is on another node."},
		{PodGone, 404, false, "There is no such pod, or it is being deleted."},
		{PodReplaced, 409, false, "The pod of that name has another UID."},
		{BoundElsewhere, 403, false, "The pod is not bound to the node asked for."},
		{UnknownContainer, 422, false, "The pod has no container of that name at that position."},
		{AlreadyStarted, 409, false, "The container runs or has run: its devices are in use."},
		{NotPending, 409, false, "Kubelet has reported on the pod, or the pod has ended."},
		{AnotherInGate, 409, true, "Another pod is in the node's gate, so the call may be about that one."},
		{UnknownFamily, 422, false, "There is no device family with exactly that type word."},
		{NoRefitSupport, 422, false, "The family is declared without refit."},
		{NotRecorded, 422, false, "The pod's record has no devices of the family for the container."},
		{UnreadableRecord, 422, false, "The pod's record cannot be read."},
		{UnreadablePod, 422, false, "The pod's requests or device selectors cannot be read."},
		{RecordMismatch, 422, false, "The record does not match the pod's requests."},
		{NotOptedIn, 422, false, "The pod has no valid annotation hami.io/numa-alignment."},
		{NodeGone, 404, false, "There is no such node."},
		{UnreadableInventory, 422, false, "The node's inventory cannot be read."},
		{UnreadableNeighbour, 422, false, "A pod of the node has an unreadable record, so the node takes nothing."},
		{UnknownDevice, 422, false, "None of the allowed devices is on the node."},
		{OtherFamily, 422, false, "The allowed devices are of another family."},
		{TooFewDevices, 422, false, "Fewer devices are allowed than the container holds."},
		{NotSelected, 422, false, "The pod's selectors exclude too many of the allowed devices."},
		{InMIGMode, 422, false, "Too many of the allowed devices are in MIG mode, which is not shared."},
		{Unhealthy, 422, true, "Too many of the allowed devices are unhealthy."},
		{Cordoned, 422, false, "Too many of the allowed devices are cordoned."},
		{NeedsMore, 422, false, "On a larger card, the container's share would be more memory than recorded."},
		{CapacityTooSmall, 422, false, "The allowed devices would be too small even if they were empty."},
		{NotOnOneNUMANode, 422, false, "The container needs devices on one NUMA node, and no such set has room."},
		{NoSlots, 422, true, "The allowed devices have too few free slots for the pod's phases."},
		{NoMemory, 422, true, "The allowed devices have too little free memory for the pod's phases."},
		{Exclusive, 422, true, "The allowed devices are in exclusive use, or the container needs one alone."},
		{NoCores, 422, true, "The allowed devices have too few free cores for the pod's phases."},
		{Fragmented, 422, true, "Each device would fit the container, but too few fit together."},
		{Conflict, 409, true, "The pod changed between read and write, twice."},
		{TooLate, 504, true, "The 2 s ran out. A second request tells whether the write was carried out."},
		{Unavailable, 503, true, "The API server cannot be reached, or rejects the service's own requests."},
		{Internal, 500, false, "A defect of the service. Its log has the details."},
	}
}

// Fact describes the reason; Internal for an unknown one.
func (r Reason) Fact() Fact {
	all := Reasons()
	if i := slices.IndexFunc(all, func(f Fact) bool { return f.Reason == r }); i >= 0 {
		return all[i]
	}
	return all[len(all)-1]
}

// fromPlacement returns the reason for a refusal by placement.Refit; Internal for one that it does not give.
func fromPlacement(r placement.Reason) Reason {
	reason, ok := map[placement.Reason]Reason{
		placement.Mismatch: RecordMismatch, placement.PhaseOver: AlreadyStarted,
		placement.UnknownDevice: UnknownDevice, placement.NoDevices: UnknownDevice,
		placement.OtherFamily: OtherFamily, placement.TooFewDevices: TooFewDevices, placement.NotSelected: NotSelected,
		placement.InMIGMode: InMIGMode, placement.Unhealthy: Unhealthy, placement.Cordoned: Cordoned,
		placement.NeedsMore: NeedsMore, placement.CapacityTooSmall: CapacityTooSmall,
		placement.NotOnOneNUMANode: NotOnOneNUMANode, placement.NotAligned: NotOnOneNUMANode,
		placement.NoSlots: NoSlots, placement.NoMemory: NoMemory, placement.Exclusive: Exclusive,
		placement.NoCores: NoCores, placement.Fragmented: Fragmented,
	}[r]
	if !ok {
		return Internal
	}
	return reason
}
