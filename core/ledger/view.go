package ledger

import (
	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/placement"
)

// View is an immutable picture of one node's book.
type View struct {
	Name       string
	Devices    []device.Device
	Held       []device.Usage // parallel to Devices
	Unreadable string         // why the node takes no new pods, "" when it does
	// Missing is what pods hold on devices that the node does not list, by UUID.
	Missing map[string]device.Usage
	Known   bool // a Node fact was given
}

// Placement returns the view as placement sees it.
func (v *View) Placement() placement.Node { return placement.Node{Devices: v.Devices, Held: v.Held} }

// Without returns the node as it would be if pods of these UIDs were gone.
func (b *Book) Without(node string, uids ...string) *View { panic("not written yet") }
