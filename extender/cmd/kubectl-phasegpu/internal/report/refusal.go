package report

import (
	"slices"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Container is a container that finds too few devices on a node.
type Container struct {
	Name    string   `json:"name"`
	Class   string   `json:"class"`
	Asks    string   `json:"asks"`
	Reason  string   `json:"reason"`
	Devices []Device `json:"devices"` // of the family that it requests, in the node's order
}

// Device is how a device meets the request of a container.
type Device struct {
	UUID     string        `json:"uuid"`
	Fits     bool          `json:"fits"`
	Reason   string        `json:"reason"` // "Fits" when it does
	Says     string        `json:"says"`   // the reason with numbers
	Asked    Amount        `json:"asked"`
	Capacity Amount        `json:"capacity"`
	Free     Amount        `json:"free"`   // what other pods leave; below zero where they hold more than there is
	Phases   []DevicePhase `json:"phases"` // those in which the container is alive
	Holders  []Holder      `json:"holders"`
}

// DevicePhase is whether a container fits on a device in one of the pod's phases.
type DevicePhase struct {
	Name   string `json:"name"` // an init container's, or steady
	Own    Amount `json:"own"`  // what the pod's other containers take there
	Reason string `json:"reason"`
}

// Draw writes what a container requests and how each device meets that. Devices without holders and with the same
// answer share a line.
func (c *Container) Draw(p *render.Printer, indent string) {
	p.Line(indent, c.Class, " ", c.Name, " asks for ", c.Asks)
	type line struct {
		uuids string
		*Device
	}
	var lines []line
	for i := range c.Devices {
		d := &c.Devices[i]
		same := slices.IndexFunc(lines, func(l line) bool {
			return l.Says == d.Says &&
				len(l.Holders)+len(d.Holders) == 0
		})
		if same < 0 {
			lines = append(lines, line{d.UUID, d})
		} else {
			lines[same].uuids += ", " + d.UUID
		}
	}
	width := 0
	for _, l := range lines {
		width = min(max(width, render.Width(l.uuids)), 44)
	}
	for _, l := range lines {
		p.Line(indent, "  ", render.Left(l.uuids, width), "  ", l.Says)
		if !l.Fits {
			DrawHolders(p, indent+"    ", l.Holders, Amount.Held)
		}
	}
}
