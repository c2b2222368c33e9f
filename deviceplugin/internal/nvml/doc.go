// Package nvml finds the node's cards through NVIDIA's management library and follows their health.
//
// The library is C and loaded at run time, so a binary that is built without cgo has none; it can serve a
// declared inventory only.
package nvml

import (
	"time"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
)

// ApplicationXIDs are the errors (XIDs, in NVIDIA's list of them) that a faulty program causes on a card
// that is well: 13 graphics engine exception, 31 memory page fault, 43 channel stopped, 45 channel removed,
// 68 video processor exception, 109 context switch timeout.
func ApplicationXIDs() []uint64 { return []uint64{13, 31, 43, 45, 68, 109} }

// Options is how cards are followed.
type Options struct {
	IgnoredXIDs  []uint64
	RecoverAfter time.Duration // how long after its last fatal XID a card that answers is taken for well
	ProbeEvery   time.Duration // how often all cards are asked
	// Read is told of all cards at the start and after every look at them.
	Read func([]inventory.Card) error
	// Told is told of XIDs, by card and whether they condemn it, and of what went wrong.
	XID  func(uuid string, xid uint64, fatal bool)
	Told func(error)
}
