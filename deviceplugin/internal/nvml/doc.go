// Package nvml finds the node's cards through NVIDIA's management library and follows their health.
//
// The library is C and loaded at run time. A binary without cgo cannot use it and needs a declared inventory.
package nvml

import (
	"time"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
)

// ApplicationXIDs are the errors (XIDs, in NVIDIA's list of them) that a faulty program causes on a healthy card: 13
// graphics engine exception, 31 memory page fault, 43 channel stopped, 45 channel removed, 68 video processor
// exception, 109 context switch timeout.
func ApplicationXIDs() []uint64 { return []uint64{13, 31, 43, 45, 68, 109} }

// Observer is what watches the cards.
type Observer interface {
	inventory.Observer // takes all cards at the start and after every look at them
	// XID is an error that a card reported; a fatal one makes the card unhealthy.
	XID(uuid string, xid uint64, fatal bool)
}

// Options configure Watch.
type Options struct {
	IgnoredXIDs  []uint64
	RecoverAfter time.Duration // time after its last fatal XID until a card that answers is healthy again
	ProbeEvery   time.Duration // time between two looks at all cards
	Observer
}

func (o *Options) problem(err error) { o.Problem("nvml", err) }
