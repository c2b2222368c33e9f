package refit

import (
	"net/http"

	"github.com/phasegpu/phasegpu/core/placement"
)

// Reason is why a container was not moved: one of Reasons, for callers and metrics to switch on.
type Reason string

// The reasons. What each means, its HTTP status and whether asking again may help is said in Reasons.
const (
	// Of the call.
	PlainHTTP       Reason = "PlainHTTP"
	BadRequest      Reason = "BadRequest"
	TooLarge        Reason = "TooLarge"
	Unauthenticated Reason = "Unauthenticated"
	NotDevicePlugin Reason = "NotDevicePlugin"
	NotBound        Reason = "NotBound"
	OtherNode       Reason = "OtherNode"
	CallerGone      Reason = "CallerGone"

	// Of the pod.
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

	// Of the node.
	NodeGone            Reason = "NodeGone"
	UnreadableInventory Reason = "UnreadableInventory"
	UnreadableNeighbour Reason = "UnreadableNeighbour"

	// Of the allowed devices, in placement's words.
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

	// Of the write and of the API server.
	Conflict    Reason = "Conflict"
	TooLate     Reason = "TooLate"
	Unavailable Reason = "Unavailable"
	Internal    Reason = "Internal"
)

// Fact is what is known of a reason.
type Fact struct {
	Reason Reason
	Status int  // HTTP
	Again  bool // the same question may be answered otherwise later, with nobody changing the pod, node or deployment
	Means  string
}

// Reasons returns all reasons, in the order of the constants.
func Reasons() []Fact {
	return []Fact{
		{PlainHTTP, http.StatusBadRequest, false, "The connection is not TLS."},
		{BadRequest, http.StatusBadRequest, false, "The body is no such JSON object, has unknown fields, or a value is out of bounds."},
		{TooLarge, http.StatusRequestEntityTooLarge, false, "The body is larger than 512 KiB."},
		{Unauthenticated, http.StatusUnauthorized, false, "There is no bearer token, or the API server does not accept it for this service's audience: expired, forged, for somebody else, or its pod is gone."},
		{NotDevicePlugin, http.StatusForbidden, false, "The token belongs to another service account than the device plugin's."},
		{NotBound, http.StatusForbidden, false, "The token is not bound to a pod and its node: only projected tokens are."},
		{OtherNode, http.StatusForbidden, false, "The token is bound to another node than the one asked for."},
		{CallerGone, http.StatusForbidden, false, "The pod that the token is bound to is gone, was replaced, or is on another node."},
		{PodGone, http.StatusNotFound, false, "There is no such pod, or it is being deleted."},
		{PodReplaced, http.StatusConflict, false, "The pod of that name has another UID."},
		{BoundElsewhere, http.StatusForbidden, false, "The pod is not bound to the node asked for."},
		{UnknownContainer, http.StatusUnprocessableEntity, false, "The pod has no container of that name at that position."},
		{AlreadyStarted, http.StatusConflict, false, "The container runs or has run: its devices are in use where they are."},
		{NotPending, http.StatusConflict, false, "Kubelet has reported on the pod, or it has ended: its devices are allocated."},
		{AnotherInGate, http.StatusConflict, true, "Kubelet has not reported on another recorded pod of the node, so the call may be about that one."},
		{UnknownFamily, http.StatusUnprocessableEntity, false, "No device family has that type word, exactly."},
		{NoRefitSupport, http.StatusUnprocessableEntity, false, "The family is declared without refit."},
		{NotRecorded, http.StatusUnprocessableEntity, false, "The container has no devices of the family in the pod's record, or the pod has no record."},
		{UnreadableRecord, http.StatusUnprocessableEntity, false, "The pod's record cannot be read."},
		{UnreadablePod, http.StatusUnprocessableEntity, false, "What the pod asks for, or an annotation by which it restricts its devices, cannot be read."},
		{RecordMismatch, http.StatusUnprocessableEntity, false, "The record has not what the pod asks for."},
		{NotOptedIn, http.StatusUnprocessableEntity, false, "The pod has no annotation hami.io/numa-alignment with an accepted value, so its devices stay."},
		{NodeGone, http.StatusNotFound, false, "There is no such node."},
		{UnreadableInventory, http.StatusUnprocessableEntity, false, "The node's inventory cannot be read."},
		{UnreadableNeighbour, http.StatusUnprocessableEntity, false, "What another pod of the node holds cannot be read, so the node takes nothing."},
		{UnknownDevice, http.StatusUnprocessableEntity, false, "None of the allowed devices is on the node."},
		{OtherFamily, http.StatusUnprocessableEntity, false, "The allowed devices are of another family."},
		{TooFewDevices, http.StatusUnprocessableEntity, false, "Fewer devices are allowed than the container holds."},
		{NotSelected, http.StatusUnprocessableEntity, false, "The pod's selectors exclude too many of the allowed devices."},
		{InMIGMode, http.StatusUnprocessableEntity, false, "Too many of the allowed devices are in MIG mode, which is not shared."},
		{Unhealthy, http.StatusUnprocessableEntity, true, "Too many of the allowed devices are unhealthy."},
		{Cordoned, http.StatusUnprocessableEntity, false, "Too many of the allowed devices are cordoned."},
		{NeedsMore, http.StatusUnprocessableEntity, false, "The container asks for a share of the card, which on the allowed devices is more memory than recorded."},
		{CapacityTooSmall, http.StatusUnprocessableEntity, false, "The allowed devices are too small however empty they become."},
		{NotOnOneNUMANode, http.StatusUnprocessableEntity, false, "The pod wants each container's devices on one NUMA node, and the allowed ones with room are not."},
		{NoSlots, http.StatusUnprocessableEntity, true, "The allowed devices have too few slots in the pod's phases beside what others hold."},
		{NoMemory, http.StatusUnprocessableEntity, true, "The allowed devices have too little memory in the pod's phases beside what others hold."},
		{Exclusive, http.StatusUnprocessableEntity, true, "The allowed devices are in exclusive use, or not free for a container that wants one alone."},
		{NoCores, http.StatusUnprocessableEntity, true, "The allowed devices have too few cores in the pod's phases beside what others hold."},
		{Fragmented, http.StatusUnprocessableEntity, true, "Each device would fit the container, but not enough of them together."},
		{Conflict, http.StatusConflict, true, "The pod changed between reading and writing, twice."},
		{TooLate, http.StatusGatewayTimeout, true, "The 2 s were over; whether the write was carried out is told by asking again."},
		{Unavailable, http.StatusServiceUnavailable, true, "The API server cannot be reached, or refuses the service's own requests."},
		{Internal, http.StatusInternalServerError, false, "A defect of the service; its log says which."},
	}
}

// Fact returns what is known of a reason; of one that is none, what is known of Internal.
func (r Reason) Fact() Fact {
	var internal Fact
	for _, f := range Reasons() {
		switch f.Reason {
		case r:
			return f
		case Internal:
			internal = f
		}
	}
	return internal
}

// of returns the name of placement's reason against a refit.
func of(r placement.Reason) Reason {
	switch r {
	case placement.Mismatch:
		return RecordMismatch
	case placement.PhaseOver:
		return AlreadyStarted
	case placement.UnknownDevice, placement.NoDevices:
		return UnknownDevice
	case placement.OtherFamily:
		return OtherFamily
	case placement.TooFewDevices:
		return TooFewDevices
	case placement.NotSelected:
		return NotSelected
	case placement.InMIGMode:
		return InMIGMode
	case placement.Unhealthy:
		return Unhealthy
	case placement.Cordoned:
		return Cordoned
	case placement.NeedsMore:
		return NeedsMore
	case placement.CapacityTooSmall:
		return CapacityTooSmall
	case placement.NotOnOneNUMANode, placement.NotAligned:
		return NotOnOneNUMANode
	case placement.NoSlots:
		return NoSlots
	case placement.NoMemory:
		return NoMemory
	case placement.Exclusive:
		return Exclusive
	case placement.NoCores:
		return NoCores
	case placement.Fragmented:
		return Fragmented
	default:
		return Internal
	}
}
