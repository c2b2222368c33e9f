package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// What is told of many: the first in full, the others by number. JSON has more.
const (
	maxNames   = 6 // of nodes
	maxHolders = 5 // of a device or quota
)

// Text writes the answer. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{Report: r, screen: s, glyphs: s.Glyphs(), out: render.Printer{Out: w}}
	d.headline()
	for _, h := range r.Hindrances {
		d.out.Line("  ", d.screen.Paint(render.Red, d.glyphs.Refused), " ", h.Message)
	}
	if r.State == Placed && r.Pod != nil && d.out.Err == nil {
		d.out.Err = r.Pod.Holds(w, s)
	}
	if r.State == Waiting {
		for i := range r.Quotas {
			d.quota(&r.Quotas[i])
		}
		d.fits()
		for i := range r.Refusals {
			d.group(&r.Refusals[i])
		}
		d.remedies()
	}
	if len(r.Notes) > 0 {
		d.out.Line()
	}
	for _, n := range r.Notes {
		d.out.Line("  ", d.glyphs.Dot, " ", n)
	}
	return d.out.Err
}

type drawing struct {
	*Report
	screen render.Screen
	glyphs render.Glyphs
	out    render.Printer
}

func (d *drawing) headline() {
	title := d.screen.Paint(render.Bold, fmt.Sprintf("Pod %s/%s", d.Namespace, d.Name))
	mark := d.screen.Paint(render.Green, d.glyphs.Tick)
	switch d.State {
	case Placed:
		d.out.Line(mark, " ", title, " is on node ", d.screen.Paint(render.Bold, d.Node), d.stage())
	case Ended:
		d.out.Line(mark, " ", title, " has ended")
	case NoDevices:
		d.out.Line(mark, " ", title, " asks for no device")
	default:
		since := ""
		if !d.text.pod.CreationTimestamp.IsZero() {
			since = " for " + age(d.text.since)
		}
		mark = d.screen.Paint(render.Red, d.glyphs.Refused)
		if !d.Waits() {
			mark = d.screen.Paint(render.Yellow, d.glyphs.Dot)
		}
		d.out.Line(mark, " ", title, " waits for a node", since)
	}
}

// stage says in which phase a placed pod is.
func (d *drawing) stage() string {
	if d.Pod == nil || len(d.Pod.Phases) < 2 {
		return ""
	}
	k := min(d.Pod.CompletedInits, len(d.Pod.Phases)-1)
	return fmt.Sprintf(", in phase %s (%d of %d)", d.Pod.Phases[k].Name, k+1, len(d.Pod.Phases))
}

func (d *drawing) quota(s *Shortage) {
	line := fmt.Sprintf("ResourceQuota %s, %s: ", s.Quota, s.Resource)
	if s.Unreadable != "" {
		d.out.Line("  ", d.screen.Paint(render.Red, d.glyphs.Refused), " ", line, "cannot be read, so nothing is added to the namespace: ", s.Unreadable)
		return
	}
	d.out.Line("  ", d.screen.Paint(render.Red, d.glyphs.Refused), " ", line,
		fmt.Sprintf("asked %s%d in its largest phase + %d used > %d %s, %d too much", s.atLeast(), s.Asked, s.Used, s.Max, s.Unit, s.Missing))
	percent := s.Unit == "%"
	d.holders(s.Holders, func(a ui.Amount) string {
		if percent {
			return fmt.Sprintf("%d %%", a.Cores)
		}
		return fmt.Sprintf("%d MiB", a.MemoryMiB)
	}, "      ")
}

func (s *Shortage) atLeast() string {
	if s.AtLeast {
		return "at least "
	}
	return ""
}

func (d *drawing) fits() {
	if len(d.Fits) > 0 {
		d.out.Line("  ", d.screen.Paint(render.Green, d.glyphs.Tick), " ", d.screen.Paint(render.Bold, names(d.Fits)), "  it fits")
	}
	for i, g := range d.Gates {
		if i == maxNames {
			d.out.Line("      and the GPU gates of ", render.Count(int64(len(d.Gates)-i), "more node"))
			break
		}
		queue := "how many wait there only the extender knows"
		if d.GatesFrom == "extender" {
			queue = fmt.Sprintf("%d waiting", g.Waiting)
		}
		d.out.Line("      GPU gate of ", g.Node, ": kubelet has not reported on ", strings.Join(g.Inside, ", "), ", ", queue)
	}
}

func names(nodes []string) string {
	text := strings.Join(nodes[:min(len(nodes), maxNames)], ", ")
	if more := len(nodes) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (d *drawing) group(g *Group) {
	mark := d.screen.Paint(render.Red, d.glyphs.Refused)
	title, single := names(g.Nodes), len(g.Nodes) == 1
	if !single {
		title = render.Count(int64(len(g.Nodes)), "node") + ": " + title
	}
	says := g.Reason
	if single && len(g.Nearest) == 1 && len(g.Nearest[0].Containers) == 0 {
		says = g.Nearest[0].Sentence
	}
	d.out.Line("  ", mark, " ", d.screen.Paint(render.Bold, title), "  ", says)
	for i := range g.Nearest {
		a := &g.Nearest[i]
		switch {
		case len(a.Containers) == 0 && (a.Sentence != g.Reason || len(a.Holders) > 0):
			if !single {
				d.out.Line("      ", a.Node, "  ", a.Sentence)
			}
			d.holders(a.Holders, func(a ui.Amount) string { return fmt.Sprint(a.Slots) }, "          ")
		case len(a.Containers) > 0 && hasDevices(a):
			if !single {
				d.out.Line("      ", d.screen.Paint(render.Bold, a.Node))
			}
			for k := range a.Containers {
				d.container(&a.Containers[k])
			}
		}
	}
}

func hasDevices(a *Answer) bool {
	for i := range a.Containers {
		if len(a.Containers[i].Devices) > 0 {
			return true
		}
	}
	return false
}

func (d *drawing) container(c *Container) {
	d.out.Line("        ", c.Class, " ", c.Name, " asks for ", c.Asks)
	type line struct {
		uuids, says string
		holders     []Holder
		device      *Device
	}
	var lines []line
	width := 0
	for i := range c.Devices {
		dev := &c.Devices[i]
		if n := len(lines); n > 0 && lines[n-1].says == dev.Says && len(dev.Holders)+len(lines[n-1].holders) == 0 {
			lines[n-1].uuids += ", " + dev.UUID
		} else {
			lines = append(lines, line{dev.UUID, dev.Says, dev.Holders, dev})
		}
		width = min(max(width, render.Width(lines[len(lines)-1].uuids)), 44)
	}
	for _, l := range lines {
		d.out.Line("          ", render.Left(l.uuids, width), "  ", l.says)
		if l.device.Fits {
			continue
		}
		d.holders(l.holders, amounts, "            ")
	}
}

// amounts writes what is held of a device.
func amounts(a ui.Amount) string {
	text := fmt.Sprintf("%d MiB", a.MemoryMiB)
	if a.Cores > 0 {
		text += fmt.Sprintf(" and %d %% cores", a.Cores)
	}
	return text
}

func (d *drawing) holders(holders []Holder, amount func(ui.Amount) string, indent string) {
	width, most := 0, min(len(holders), maxHolders)
	for _, h := range holders[:most] {
		width = max(width, render.Width(h.Namespace+"/"+h.Name))
	}
	for i, h := range holders[:most] {
		label := "held by "
		if i > 0 {
			label = "        "
		}
		d.out.Line(indent, label, render.Left(h.Namespace+"/"+h.Name, width), "  ", h.words(amount))
	}
	if rest := holders[most:]; len(rest) > 0 {
		var sum ui.Amount
		for _, h := range rest {
			sum = ui.Amount{Slots: sum.Slots + h.Holds.Slots, MemoryMiB: sum.MemoryMiB + h.Holds.MemoryMiB, Cores: sum.Cores + h.Holds.Cores}
		}
		d.out.Line(indent, "        and ", render.Count(int64(len(rest)), "more pod"), ", together ", amount(sum))
	}
}

// words say how much is held and until when.
func (h *Holder) words(amount func(ui.Amount) string) string {
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

func (d *drawing) remedies() {
	if len(d.Remedies) == 0 {
		return
	}
	d.out.Line()
	d.out.Line("  ", d.screen.Paint(render.Bold, "what would make it fit"))
	for _, r := range d.Remedies {
		d.out.Line("  ", d.glyphs.Arrow, " ", r.Text)
	}
}

// age writes a duration roughly.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
