package device

import "slices"

// MaxMemoryMiB bounds the memory of a request and of a device: 8 TiB. Beyond it a number is a mistake
// (bytes given as MiB), and below it no sum over a node's devices can overflow.
const MaxMemoryMiB = 8 << 20

// WholeCores is the request for a device's whole compute. It makes a container exclusive: while its
// phase remains, no other container of any pod may hold the device.
const WholeCores = 100

// Mode is how a device is shared.
type Mode uint8

// The modes of the wire contract. A MIG device is listed and never offered.
const (
	HAMiCore Mode = iota
	MPS
	MIG
)

// String gives the mode's name in an inventory.
func (m Mode) String() string {
	switch m {
	case MPS:
		return "mps"
	case MIG:
		return "mig"
	default:
		return "hami-core"
	}
}

// Device is one physical card of a node's inventory.
type Device struct {
	UUID     string // unique on its node, across families
	Index    int
	Family   string // the family's type word, e.g. "NVIDIA"
	Model    string // the card's model, e.g. "NVIDIA A100-SXM4-40GB"
	NUMA     int    // NUMA node
	Capacity Amount
	Mode     Mode
	Healthy  bool
	Cordoned bool // takes nothing new; what runs stays
}

// Usage is what pods hold of a device: all pods, or all but the one to be placed.
type Usage struct {
	Amount
	// Exclusive is set while a container with WholeCores holds the device and its phase remains.
	Exclusive bool
}

// Request is what one container asks for. Memory and cores are per device.
// The zero Request asks for no device.
type Request struct {
	Family        string // type word
	Devices       int    // number of distinct devices
	MemoryMiB     int64  // 0 when MemoryPercent or the whole card is asked for
	MemoryPercent int64  // 1 to 100, of each device's own memory; 0 when not asked for
	Cores         int64  // 0 to 100; 0 is no limit
}

// MemoryKnown reports whether the request's memory is a number of MiB before a device is chosen.
func (r Request) MemoryKnown() bool { return r.MemoryMiB > 0 || r.Devices == 0 }

// On returns what the request holds of one device with the given memory in MiB: one slot, its memory
// (a percentage rounds down to MiB; neither MiB nor percentage is the whole card) and its cores. A
// request for no device holds nothing.
func (r Request) On(deviceMemoryMiB int64) Amount {
	if r.Devices == 0 {
		return Amount{}
	}
	memory := r.MemoryMiB
	switch {
	case r.MemoryPercent > 0:
		// Divided first, so that no memory size can overflow: floor(m*p/100) exactly.
		memory = deviceMemoryMiB/100*r.MemoryPercent + deviceMemoryMiB%100*r.MemoryPercent/100
	case memory == 0:
		memory = deviceMemoryMiB
	}
	return Amount{Slots: 1, MemoryMiB: memory, Cores: r.Cores}
}

// Share is what one container holds of one device. An amount belongs to its container and UUID, never
// to a position in a list: one container may hold different amounts on unlike cards.
type Share struct {
	UUID   string
	Family string // type word
	Amount Amount // Slots is 1
}

// Allocation is what each container of a pod holds, indexed by container position
// (initContainers, then containers). Containers without devices keep an empty entry.
type Allocation [][]Share

// Equal reports whether two allocations give the same shares to the same positions. An entry without shares
// may be nil or empty, and so may an allocation without entries.
func (a Allocation) Equal(b Allocation) bool { return slices.EqualFunc(a, b, slices.Equal[[]Share]) }

// IsEmpty reports whether no container holds a device.
func (a Allocation) IsEmpty() bool {
	for _, shares := range a {
		if len(shares) > 0 {
			return false
		}
	}
	return true
}
