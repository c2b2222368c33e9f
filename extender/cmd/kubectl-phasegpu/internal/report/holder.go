package report

import (
	"fmt"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Holder is a pod that holds something of a device or of a quota.
type Holder struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Holds     Amount `json:"holds"`               // of a quota: devices, MiB × devices and percent × devices
	Exclusive bool   `json:"exclusive,omitempty"` // no other pod may have the device
	// Kept means that the pod is nominated and has no node yet: what it will hold is kept for it.
	Kept    bool   `json:"kept,omitempty"`
	Phase   string `json:"phase"`   // in which it is: an init container's name, or steady
	Release string `json:"release"` // its policy
	// Steps are how it will hold less, in order; what is left after the last it holds until it ends.
	Steps []Step `json:"steps"`
}

// Step is the end of an init container, after which its pod holds less.
type Step struct {
	After    string `json:"after"` // the init container
	Then     Amount `json:"then"`
	Releases Amount `json:"releases"`
}

// maxHolders is how many holders the text lists; JSON has all.
const maxHolders = 5

// DrawHolders writes who holds something. amount writes what of an amount counts.
func DrawHolders(p *render.Printer, indent string, holders []Holder, amount func(Amount) string) {
	most := min(len(holders), maxHolders)
	var rows []render.Row
	for i, h := range holders[:most] {
		label := "held by "
		if i > 0 {
			label = "        "
		}
		rows = append(rows, render.Row{Cells: []string{label + h.Namespace + "/" + h.Name, h.words(amount)}})
	}
	p.Table(indent, nil, rows...)
	if rest := holders[most:]; len(rest) > 0 {
		var sum Amount
		for _, h := range rest {
			sum = sum.Plus(h.Holds)
		}
		p.Line(indent, "        and ", render.Count(int64(len(rest)), "more pod"), ", together ", amount(sum))
	}
}

// words writes how much is held and until when.
func (h *Holder) words(amount func(Amount) string) string {
	text := amount(h.Holds)
	if h.Exclusive {
		text += ", shared with nobody,"
	}
	if h.Kept {
		return text + " kept for it: others were evicted for it, and it is not there yet"
	}
	for _, step := range h.Steps {
		text += fmt.Sprintf(" until init %s ends, then ", step.After)
		if step.Then.Slots == 0 {
			return text + "nothing"
		}
		text += amount(step.Then)
	}
	text += " until it ends"
	if h.Release != "per-init" {
		text += fmt.Sprintf(" (release %s)", h.Release)
	}
	return text
}
