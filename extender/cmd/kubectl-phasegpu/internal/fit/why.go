package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Refusal is why a pod does not fit on one node.
type Refusal struct {
	Node     string
	Reason   string // without numbers, as kube-scheduler would add it up
	Sentence string // on one line, with numbers
	// Devices says it device by device; nil when they are not the reason.
	Devices *placement.Explanation
	// Count is the advertised resource of which there is too little; nil when that is not the reason.
	Count *Count

	details []containerRefusal
}

// containerRefusal is a container that finds too few devices, and what each device has to say.
type containerRefusal struct {
	asks    string
	devices []deviceAnswer
}

type deviceAnswer struct{ uuid, words string }

// plain is a refusal in one sentence, of which the reason may be a part.
func plain(node, reason, rest string) *Refusal {
	return &Refusal{Node: node, Reason: reason, Sentence: reason + rest}
}

// Words say what placement's reports on a node mean for a pod.
type Words struct {
	Name     func(position int) string // of a container
	Selector *placement.Selector       // the pod's
	Devices  []device.Device           // the node's
}

// refuse words placement's own explanation.
func (w Words) refuse(node string, e placement.Explanation) *Refusal {
	r := &Refusal{Node: node, Reason: e.Reason.String(), Sentence: e.Sentence(w.Name), Devices: &e}
	for i := range e.Containers {
		c := &e.Containers[i]
		if c.Reason == placement.Fits {
			continue
		}
		detail := containerRefusal{asks: fmt.Sprintf("%v %s asks for %s", c.Class, w.Name(c.Position), Asks(c.Request))}
		for j := range c.Devices {
			d := &c.Devices[j]
			if d.Reason != placement.OtherFamily {
				detail.add(d.UUID, w.Answer(d))
			}
		}
		r.details = append(r.details, detail)
	}
	return r
}

// add appends a device's answer, or its name to one before it that says the same.
func (c *containerRefusal) add(uuid, words string) {
	if i := slices.IndexFunc(c.devices, func(d deviceAnswer) bool { return d.words == words }); i >= 0 {
		c.devices[i].uuid += ", " + uuid
		return
	}
	c.devices = append(c.devices, deviceAnswer{uuid, words})
}

// Asks writes a request in words.
func Asks(r device.Request) string {
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

// Answer says whether a device takes a container, and else in which phase what is missing.
func (w Words) Answer(d *placement.DeviceReport) string {
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
		phase := "steady"
		if k.InitPosition >= 0 {
			phase = w.Name(k.InitPosition)
		}
		return fmt.Sprintf("phase %s: %s", phase, lack(k, d))
	}
	return strings.ToLower(d.Reason.String()[:1]) + d.Reason.String()[1:]
}

// excluded says by which annotations of the pod a device is, and what it is that they are about.
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
