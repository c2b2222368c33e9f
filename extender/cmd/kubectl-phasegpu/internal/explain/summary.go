package explain

import (
	"fmt"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// summary says in words what the peak and the steady state are.
func (d *drawing) summary() {
	if len(d.text.families) == 0 {
		d.Line(indent, "No container asks for a device.")
		return
	}
	for i := range d.text.families {
		f := &d.text.families[i]
		word := ""
		if len(d.text.families) > 1 {
			word = render.Left(f.word, 8) + " "
		}
		d.Line(indent, d.Glyphs.Peak, " peak    ", word, d.words(f.peak, f.least), d.where(f))
		if len(d.Phases) > 1 {
			d.Line(indent, "  steady  ", word, d.words(f.steady, f.leastSteady))
		}
	}
}

// where names the phases with the most memory when there is a choice.
func (d *drawing) where(f *family) string {
	if len(d.Phases) == 1 || f.peak.MemoryMiB == nil || *f.peak.MemoryMiB == 0 {
		return ""
	}
	var names []string
	for k, p := range f.phases {
		if *p.MemoryMiB == *f.peak.MemoryMiB {
			names = append(names, d.Phases[k].Name)
		}
	}
	if len(names) > 3 {
		names = append(names[:2], fmt.Sprintf("%d more", len(names)-2))
	}
	return "  (memory in " + render.And(names) + ")"
}

// words writes an amount. Of memory that only a device can settle, least is known all the same.
func (d *drawing) words(a Amount, least int64) string {
	text := "memory known once placed"
	if least > 0 {
		text = fmt.Sprintf("more than %d MiB, known once placed", least)
	}
	if a.MemoryMiB != nil {
		text = fmt.Sprintf("%d MiB", *a.MemoryMiB)
	}
	return text + d.rest(a.Devices, "device", a.Cores)
}

// rest writes what stands behind an amount of memory.
func (d *drawing) rest(n int64, unit string, percent int64) string {
	text := "  " + d.Dot + "  " + render.Count(n, unit)
	if percent > 0 {
		text += fmt.Sprintf("  %s  %d %% cores", d.Dot, percent)
	}
	return text
}

// reserved draws what the books charge now, device by device, beside what the pod's peak takes there.
func (d *drawing) reserved() {
	if d.text.node == "" {
		return
	}
	d.Line()
	if d.Reserved == nil {
		d.Line(indent, d.Bad("reserved now: unknown, the record cannot be read"))
		return
	}
	d.Line(indent, d.Bold("reserved now"), d.because())
	name := 0
	for _, h := range d.text.devices {
		name = max(name, render.Width(h.uuid))
	}
	for _, h := range d.text.devices {
		amount := fmt.Sprintf("%d", h.now.MemoryMiB)
		if h.now != h.peak {
			amount += fmt.Sprintf(" of %d", h.peak.MemoryMiB)
		}
		held := d.rest(h.now.Slots, "slot", h.now.Cores)
		if h.now == (device.Amount{}) {
			held = "  " + d.Dot + "  given back"
		}
		bar := d.Gauge(h.now.MemoryMiB, h.peak.MemoryMiB, 24)
		d.Line(indent, "  ", render.Left(h.uuid, name), "  ", bar, "  ", amount, " MiB", held)
	}
	for _, t := range d.text.charged {
		d.Line(indent, fmt.Sprintf("  namespace %s is charged %d MiB", d.Namespace, t.MemoryMiB),
			d.rest(t.Devices, "device", t.Cores), d.inFamily(t))
	}
}

func (d *drawing) inFamily(t phase.Total) string {
	if len(d.text.families) < 2 {
		return ""
	}
	return " of " + t.Family
}

// because says which phases the reservation covers.
func (d *drawing) because() string {
	switch {
	case d.text.progress.Terminal:
		return ": nothing, the pod has ended"
	case len(d.text.devices) == 0 && len(d.text.families) > 0:
		return ": nothing, no allocation is recorded"
	case len(d.text.devices) == 0:
		return ": nothing"
	case len(d.Phases) == 1:
		return ""
	case d.text.first == len(d.Phases)-1:
		return " for " + report.Steady
	case d.text.first == 0 && d.CompletedInits > 0:
		return fmt.Sprintf(": the largest of all phases (release %s)", d.text.release)
	default:
		return fmt.Sprintf(": the largest phase from %s on", d.Phases[d.text.first].Name)
	}
}

// Holds writes what the books charge for the pod now, as Text does below its drawing.
func (e *Explanation) Holds(p *render.Printer) {
	d := drawing{Explanation: e, Printer: p}
	d.reserved()
}
