package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Refusal is why a pod does not fit on one node.
type Refusal struct {
	Node     string
	Reason   string // without numbers, as kube-scheduler would add it up
	Sentence string // on one line, with numbers
	// Devices is the reason device by device, nil when it is another.
	Devices *placement.Explanation
	// Count is the advertised resource of which there is too little, nil when that is not the reason.
	Count *Count

	words Words // of Devices
}

// plain is a refusal in one sentence, of which the reason may be a part.
func plain(node, reason, rest string) *Refusal {
	return &Refusal{Node: node, Reason: reason, Sentence: reason + rest}
}

// Words put placement's reports on a node in words.
type Words struct {
	Name     func(position int) string // of a container
	Selector *placement.Selector       // the pod's
	Devices  []device.Device           // the node's
}

func (w Words) refuse(node string, e placement.Explanation) *Refusal {
	return &Refusal{Node: node, Reason: e.Reason.String(), Sentence: e.Sentence(w.Name), Devices: &e, words: w}
}

// Containers returns the containers that find too few devices. holders returns who holds a device that would take the
// container if it were free; nil leaves them out.
func (r *Refusal) Containers(holders func(uuid string) []report.Holder) []report.Container {
	containers := []report.Container{}
	if r.Devices == nil {
		return containers
	}
	for i := range r.Devices.Containers {
		c := &r.Devices.Containers[i]
		if c.Reason == placement.Fits {
			continue
		}
		container := report.Container{
			Name: r.words.Name(c.Position), Class: c.Class.String(), Asks: asks(c.Request), Reason: c.Reason.String(),
			Devices: []report.Device{},
		}
		for j := range c.Devices {
			d := &c.Devices[j]
			if d.Reason == placement.OtherFamily {
				continue
			}
			device := r.words.device(d)
			if holders != nil && !d.Reason.Unresolvable() {
				device.Holders = holders(d.UUID)
			}
			container.Devices = append(container.Devices, device)
		}
		containers = append(containers, container)
	}
	return containers
}

func (w Words) device(d *placement.DeviceReport) report.Device {
	device := report.Device{
		UUID: d.UUID, Fits: d.Reason == placement.Fits, Reason: d.Reason.String(), Says: w.answer(d),
		Asked: report.Amount(d.Asked), Capacity: report.Amount(d.Capacity), Phases: []report.DevicePhase{},
		Free: report.Amount(d.Capacity).Minus(report.Amount(d.Held.Amount)), Holders: []report.Holder{},
	}
	for _, k := range d.Phases {
		own := report.Amount(k.Own)
		device.Phases = append(device.Phases, report.DevicePhase{Name: w.phase(k), Own: own, Reason: k.Reason.String()})
	}
	return device
}

// phase names the phase of a report.
func (w Words) phase(k placement.PhaseReport) string {
	if k.InitPosition < 0 {
		return report.Steady
	}
	return w.Name(k.InitPosition)
}

// asks writes a request in words.
func asks(r device.Request) string {
	memory := "a whole card"
	switch {
	case r.MemoryPercent > 0:
		memory = fmt.Sprintf("%d %% of a card", r.MemoryPercent)
	case r.MemoryMiB > 0:
		memory = fmt.Sprintf("%d MiB", r.MemoryMiB)
	}
	if r.Cores > 0 {
		memory += fmt.Sprintf(", %d %% cores", r.Cores)
	}
	return fmt.Sprintf("%d × %s with %s", r.Devices, r.Family, memory)
}

// answer says whether a device takes a container, and else in which phase what is missing.
func (w Words) answer(d *placement.DeviceReport) string {
	switch d.Reason {
	case placement.Fits:
		return "has room"
	case placement.NotSelected:
		return w.excluded(d.UUID)
	case placement.InMIGMode:
		return "in MIG mode"
	case placement.Unhealthy:
		return "unhealthy, or not advertised by kubelet"
	case placement.Cordoned:
		return "cordoned"
	case placement.NotAligned:
		return "on another NUMA node than the containers that share its device ids"
	case placement.CapacityTooSmall:
		if d.Asked.MemoryMiB > d.Capacity.MemoryMiB {
			return fmt.Sprintf("too small: asked %d MiB, the card has %d", d.Asked.MemoryMiB, d.Capacity.MemoryMiB)
		}
		return fmt.Sprintf("too small: asked %d %% cores, the card has %d", d.Asked.Cores, d.Capacity.Cores)
	}
	for _, k := range d.Phases {
		if k.Reason == placement.Fits {
			continue
		}
		return fmt.Sprintf("phase %s: %s", w.phase(k), lack(k, d))
	}
	return strings.ToLower(d.Reason.String()[:1]) + d.Reason.String()[1:]
}

// excluded names the annotations of the pod that exclude a device and, where they name models, its model.
func (w Words) excluded(uuid string) string {
	at := slices.IndexFunc(w.Devices, func(d device.Device) bool { return d.UUID == uuid })
	var by []string
	about := ""
	for _, c := range podrequest.Clauses(w.Selector) {
		if !c.Admits(&w.Devices[at]) {
			by = append(by, c.String())
			if len(c.UseModels)+len(c.AvoidModels) > 0 {
				about = fmt.Sprintf("; it is a %q", w.Devices[at].Model)
			}
		}
	}
	return "excluded by the pod's annotation " + strings.Join(by, " and ") + about
}

// lack gives the numbers of what refuses in one phase.
func lack(k placement.PhaseReport, d *placement.DeviceReport) string {
	sum := func(unit string, asked, own, others, capacity int64) string {
		parts := []string{fmt.Sprintf("%d asked", asked)}
		if own > 0 {
			parts = append(parts, fmt.Sprintf("%d this pod's own", own))
		}
		if others > 0 {
			parts = append(parts, fmt.Sprintf("%d held by others", others))
		}
		return fmt.Sprintf("%s > %d %s", strings.Join(parts, " + "), capacity, unit)
	}
	switch k.Reason {
	case placement.NoSlots:
		return sum("slots", d.Asked.Slots, k.Own.Slots, d.Held.Slots, d.Capacity.Slots)
	case placement.NoCores:
		if d.Asked.Cores == 0 {
			return "asked cores without a limit, all are reserved"
		}
		return sum("% cores", d.Asked.Cores, k.Own.Cores, d.Held.Cores, d.Capacity.Cores)
	case placement.Exclusive:
		if d.Asked.Cores >= device.WholeCores {
			return "wants the card to itself, others hold it"
		}
		return "held by a container that shares with nobody"
	default:
		return sum("MiB", d.Asked.MemoryMiB, k.Own.MemoryMiB, d.Held.MemoryMiB, d.Capacity.MemoryMiB)
	}
}
