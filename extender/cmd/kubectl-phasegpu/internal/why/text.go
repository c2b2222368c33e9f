package why

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// maxNames is how many nodes the text names; JSON has all.
const maxNames = 6

// Text writes the answer. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{r, s.To(w)}
	d.headline()
	for _, h := range r.Hindrances {
		d.Line("  ", d.Bad(d.Refused), " ", h.Message)
	}
	if r.State == Placed && r.Pod != nil {
		r.Pod.Holds(d.Printer)
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
		d.Line()
	}
	for _, n := range r.Notes {
		d.Line("  ", d.Dot, " ", n)
	}
	return d.Err
}

type drawing struct {
	*Report
	*render.Printer
}

func (d *drawing) headline() {
	title := d.Bold(fmt.Sprintf("Pod %s/%s", d.Namespace, d.Name))
	mark := d.Good(d.Tick)
	switch d.State {
	case Placed:
		d.Line(mark, " ", title, " is on node ", d.Bold(d.Node), d.stage())
	case Ended:
		d.Line(mark, " ", title, " has ended")
	case NoDevices:
		d.Line(mark, " ", title, " asks for no device")
	default:
		since := ""
		if !d.text.pod.CreationTimestamp.IsZero() {
			since = " for " + age(d.text.since)
		}
		mark = d.Bad(d.Refused)
		if !d.Waits() {
			mark = d.Paint(render.Yellow, d.Dot)
		}
		d.Line(mark, " ", title, " waits for a node", since)
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
		d.Line("  ", d.Bad(d.Refused), " ", line,
			"cannot be read, so nothing is added to the namespace: ", s.Unreadable)
		return
	}
	d.Line("  ", d.Bad(d.Refused), " ", line,
		fmt.Sprintf("asked %s%d in its largest phase + %d used > %d %s, %d too much",
			s.atLeast(), s.Asked, s.Used, s.Max, s.Unit, s.Missing))
	report.DrawHolders(d.Printer, "      ", s.Holders, func(a report.Amount) string {
		if s.Unit == "%" {
			return fmt.Sprintf("%d %%", a.Cores)
		}
		return fmt.Sprintf("%d MiB", a.MemoryMiB)
	})
}

func (s *Shortage) atLeast() string {
	if s.AtLeast {
		return "at least "
	}
	return ""
}

func (d *drawing) fits() {
	if len(d.Fits) > 0 {
		d.Line("  ", d.Good(d.Tick), " ", d.Bold(render.Names(d.Fits, maxNames)), "  it fits")
	}
	for i, g := range d.Gates {
		if i == maxNames {
			d.Line("      and the GPU gates of ", render.Count(int64(len(d.Gates)-i), "more node"))
			break
		}
		queue := "how many wait there only the extender knows"
		if d.GatesFrom == "extender" {
			queue = fmt.Sprintf("%d waiting", g.Waiting)
		}
		d.Line("      GPU gate of ", g.Node, ": kubelet has not reported on ", strings.Join(g.Inside, ", "), ", ",
			queue)
	}
}

func (d *drawing) group(g *Group) {
	mark := d.Bad(d.Refused)
	title, single := render.Names(g.Nodes, maxNames), len(g.Nodes) == 1
	if !single {
		title = render.Count(int64(len(g.Nodes)), "node") + ": " + title
	}
	says := g.Reason
	if single && len(g.Nearest) == 1 && len(g.Nearest[0].Containers) == 0 {
		says = g.Nearest[0].Sentence
	}
	d.Line("  ", mark, " ", d.Bold(title), "  ", says)
	for i := range g.Nearest {
		a := &g.Nearest[i]
		switch {
		case len(a.Containers) == 0 && (a.Sentence != g.Reason || len(a.Holders) > 0):
			if !single {
				d.Line("      ", a.Node, "  ", a.Sentence)
			}
			report.DrawHolders(d.Printer, "          ", a.Holders,
				func(a report.Amount) string { return fmt.Sprint(a.Slots) })
		case len(a.Containers) > 0 && hasDevices(a):
			if !single {
				d.Line("      ", d.Bold(a.Node))
			}
			for k := range a.Containers {
				a.Containers[k].Draw(d.Printer, "        ")
			}
		}
	}
}

func hasDevices(a *Answer) bool {
	return slices.ContainsFunc(a.Containers, func(c report.Container) bool { return len(c.Devices) > 0 })
}

func (d *drawing) remedies() {
	if len(d.Remedies) == 0 {
		return
	}
	d.Line()
	d.Line("  ", d.Bold("what would make it fit"))
	for _, r := range d.Remedies {
		d.Line("  ", d.Arrow, " ", r.Text)
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
