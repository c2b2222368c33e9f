package placement

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Explanation is why a pod fits a node or does not, with numbers.
type Explanation struct {
	Reason     Reason            // what Fit says
	Allocation device.Allocation // what Fit gives
	Containers []ContainerReport // those that ask for devices, in position order
}

// ContainerReport is where one container fits on a node.
type ContainerReport struct {
	Position int
	Class    phase.Class
	Request  device.Request
	Reason   Reason         // why it found too few devices; Fits when it found them
	Devices  []DeviceReport // all of the node's, in its order
}

// DeviceReport is whether one container fits on one device.
type DeviceReport struct {
	UUID     string
	Reason   Reason // why the device does not take the container, or Fits
	Capacity device.Amount
	Held     device.Usage  // by others
	Asked    device.Amount // by the container, on this device
	Phases   []PhaseReport // those in which the container is alive, but for phases that the steady state covers
}

// PhaseReport is one phase of a DeviceReport. The container fits when Held, Own and Asked are within
// Capacity, and by the rules for cores.
type PhaseReport struct {
	Phase        int           // index among the pod's phases
	InitPosition int           // of the init container whose turn it is, -1 in the steady state
	Own          device.Amount // what the pod's other containers hold in it
	Reason       Reason        // why the device does not take the container in it, or Fits
}

// Explain reports on every container and device. When the pod fits, the numbers of a container are those beside the
// pod's other containers where Fit places them. When it does not, they are those beside the containers that were placed
// before it.
func Explain(n Node, p *Pod) Explanation {
	a, reason := Fit(n, p)
	e := Explanation{Reason: reason, Allocation: a}
	var s Scratch
	s.load(n, p, 0)
	reports := make([]ContainerReport, len(s.containers))
	if reason == Fits {
		for i := range s.containers {
			s.clear()
			s.record(a, s.containers[i].position)
			reports[i] = s.report(&s.containers[i])
		}
	} else {
		if reason == NotAligned || reason == NotOnOneNUMANode {
			s.tieNearest()
		}
		for _, inits := range []bool{false, true} {
			for i := range s.containers {
				if c := &s.containers[i]; c.init == inits {
					reports[i] = s.report(c)
					s.choose(c)
				}
			}
		}
	}
	e.Containers = reports
	return e
}

// report describes a container that is not placed beside what is.
func (s *Scratch) report(c *container) ContainerReport {
	report := ContainerReport{
		Position: c.position, Class: s.pod.Classes[c.position], Request: *c.request, Reason: s.lacks(c),
	}
	for d := range s.rooms {
		dev := &s.node.Devices[d]
		r := DeviceReport{
			UUID: dev.UUID, Reason: s.refusal(c, d), Capacity: dev.Capacity, Held: s.node.held(d),
			Asked: c.request.On(dev.Capacity.MemoryMiB),
		}
		if r.Reason == NoDevices {
			r.Reason = OtherFamily
		}
		for k := c.first; k <= c.last; k++ {
			r.Phases = append(r.Phases, PhaseReport{
				Phase: s.turns[k], InitPosition: s.pod.Classes.InitPosition(s.turns[k]),
				Own: s.at(k, d).Amount, Reason: s.rooms[d].refuses(s.at(k, d), r.Asked),
			})
		}
		report.Devices = append(report.Devices, r)
	}
	return report
}

// Sentence says in one line why the pod does not fit: the reason, the container that found too few
// devices, and the device that came nearest with its numbers. name gives a container's name.
func (e Explanation) Sentence(name func(position int) string) string {
	c := e.culprit()
	if c == nil {
		return e.Reason.String()
	}
	return fmt.Sprintf("%v: %v container %s asks for %s; %s", e.Reason, c.Class, name(c.Position), asked(c.Request),
		c.nearest(name))
}

// culprit is the container to speak of: one that fails for the pod's reason, else the first that fails.
func (e Explanation) culprit() *ContainerReport {
	var first *ContainerReport
	for i := range e.Containers {
		switch c := &e.Containers[i]; {
		case c.Reason == Fits:
		case c.Reason == e.Reason:
			return c
		case first == nil:
			first = c
		}
	}
	return first
}

// asked says a request in words.
func asked(r device.Request) string {
	memory := "all memory"
	switch {
	case r.MemoryPercent > 0:
		memory = fmt.Sprintf("%d%% of memory", r.MemoryPercent)
	case r.MemoryMiB > 0:
		memory = fmt.Sprintf("%d MiB", r.MemoryMiB)
	}
	cores := "no limit on cores"
	if r.Cores > 0 {
		cores = fmt.Sprintf("%d%% cores", r.Cores)
	}
	return fmt.Sprintf("%d × %s (%s, %s)", r.Devices, r.Family, memory, cores)
}

// nearest counts the devices by refusal and gives the numbers of the one that came nearest.
func (c *ContainerReport) nearest(name func(position int) string) string {
	if len(c.Devices) == 0 {
		return "the node has no devices"
	}
	var counts [reasons]int
	var best *DeviceReport
	for i := range c.Devices {
		d := &c.Devices[i]
		counts[d.Reason]++
		if d.Reason != Fits && (best == nil || d.nearerThan(best)) {
			best = d
		}
	}
	var parts []string
	for r, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, Reason(r)))
		}
	}
	text := "devices: " + strings.Join(parts, ", ")
	if best != nil {
		text += best.numbers(name)
	}
	return text
}

// nearerThan reports whether a device came nearer than another: refused for a later reason, or for the
// same and less was missing.
func (d *DeviceReport) nearerThan(other *DeviceReport) bool {
	if c := cmp.Compare(d.Reason, other.Reason); c != 0 {
		return c > 0
	}
	return d.missing() < other.missing()
}

// missing returns how much of the refusing dimension the worst phase lacks.
func (d *DeviceReport) missing() int64 {
	worst := int64(0)
	for _, k := range d.Phases {
		asked, own, held, capacity := d.of(k)
		worst = max(worst, asked+own+held-capacity)
	}
	return worst
}

// of returns the numbers of the dimension that refuses, in its unit.
func (d *DeviceReport) of(k PhaseReport) (asked, own, held, capacity int64) {
	switch d.Reason {
	case NoSlots, Exclusive:
		return d.Asked.Slots, k.Own.Slots, d.Held.Slots, d.Capacity.Slots
	case NoCores:
		return d.Asked.Cores, k.Own.Cores, d.Held.Cores, d.Capacity.Cores
	case CapacityTooSmall:
		if d.Asked.MemoryMiB <= d.Capacity.MemoryMiB {
			return d.Asked.Cores, 0, 0, d.Capacity.Cores
		}
		return d.Asked.MemoryMiB, 0, 0, d.Capacity.MemoryMiB
	}
	return d.Asked.MemoryMiB, k.Own.MemoryMiB, d.Held.MemoryMiB, d.Capacity.MemoryMiB
}

// numbers says what a device lacks, in the first phase that refuses.
func (d *DeviceReport) numbers(name func(position int) string) string {
	unit := ""
	switch d.Reason {
	case CapacityTooSmall:
		return fmt.Sprintf("; %s has %v, asked of it %v", d.UUID, d.Capacity, d.Asked)
	case NoSlots:
		unit = "slots"
	case NoMemory:
		unit = "MiB"
	case NoCores:
		unit = "% cores"
	case Exclusive:
		unit = "slots (whole cores are not shared)"
	default:
		return ""
	}
	for _, k := range d.Phases {
		if k.Reason != d.Reason {
			continue
		}
		when := "in the steady state"
		if k.InitPosition >= 0 {
			when = "while init container " + name(k.InitPosition) + " runs"
		}
		asked, own, held, capacity := d.of(k)
		return fmt.Sprintf("; nearest is %s, %s: %d %s asked, %d held by the pod's other containers, %d by other pods, of %d",
			d.UUID, when, asked, unit, own, held, capacity)
	}
	return ""
}
