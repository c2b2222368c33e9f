package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// Text writes the phases as a table, what has been released when, and what ran again. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{r, s.To(w)}
	d.headline()
	d.phases()
	d.releases()
	d.reruns()
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
	parts := []string{d.Bold(fmt.Sprintf("Pod %s/%s", d.Namespace, d.Name))}
	switch {
	case d.Node == "":
		parts = append(parts, "waits for a node")
	case d.Ended:
		parts = append(parts, "ended on "+d.Node)
	default:
		k := *d.Current
		parts = append(parts, "on "+d.Node, fmt.Sprintf("in phase %s, %d of %d", d.Phases[k].Name, k+1, len(d.Phases)))
	}
	parts = append(parts, "release "+d.Release)
	d.Line(strings.Join(parts, "  "+d.Dot+"  "))
	var moments []string
	for _, m := range []struct {
		word string
		at   *time.Time
	}{{"created", d.Created}, {"bound", d.Bound}, {"accepted by kubelet", d.Started}, {"sandbox ready",
		d.SandboxReady}} {
		if m.at != nil {
			moments = append(moments, m.word+" "+clock(*m.at))
		}
	}
	if len(moments) > 0 {
		d.Line("  ", d.Paint(render.Dim, strings.Join(moments, ", ")))
	}
	d.Line()
}

// phases writes the table. A phase with several devices takes a line for each.
func (d *drawing) phases() {
	heading := []string{" ", "phase", "from", "to", "took", "alive", "holds", "reserved"}
	rows := []render.Row{{Style: render.Dim, Cells: heading}}
	for i := range d.Phases {
		p := &d.Phases[i]
		mark, style := " ", render.Plain
		switch p.State {
		case Over:
			mark, style = d.Tick, render.Dim
		case Current:
			mark, style = d.Now, render.Bold
		case Failed:
			mark, style = d.Refused, render.Red
		}
		cells := []string{mark, p.Name, d.at(p.From), d.at(p.To), d.took(p), strings.Join(p.Alive, ", ")}
		for line := range max(1, len(p.Holds), len(p.Reserved)) {
			if line > 0 {
				cells = make([]string, 6)
			}
			rows = append(rows, render.Row{Style: style,
				Cells: append(cells, held(p.Holds, line), held(p.Reserved, line))})
		}
	}
	d.Table("  ", nil, rows...)
	d.Line()
}

func held(holdings []Holding, i int) string {
	if i >= len(holdings) {
		return ""
	}
	return holdings[i].words()
}

func (h *Holding) words() string {
	device := h.UUID
	if device == "" {
		device = fmt.Sprintf("%d %s", h.Slots, h.Family)
	}
	text := device + "  memory known once placed"
	if h.MemoryMiB != nil {
		text = fmt.Sprintf("%s  %d MiB", device, *h.MemoryMiB)
	}
	if h.Cores > 0 {
		text += fmt.Sprintf(", %d %% cores", h.Cores)
	}
	return text
}

func (d *drawing) releases() {
	for _, r := range d.Releases {
		var gives []string
		for _, h := range r.Gives {
			freed := report.Amount{Slots: h.Slots, MemoryMiB: *h.MemoryMiB, Cores: h.Cores}
			gives = append(gives, freed.Freed()+" of "+h.UUID)
		}
		mark, verb, when := " ", "will release ", "when init "+r.After+" ends"
		switch {
		case r.After == "" && r.Done:
			when = "when it ended"
		case r.After == "":
			when = "when it ends"
		case r.Done:
			when = "after init " + r.After + " ended"
		}
		if r.Done {
			mark, verb = d.Good(d.Tick), "released "
		}
		if r.At != nil {
			when = d.at(r.At) + ", " + when
		}
		d.Line("  ", mark, " ", verb, strings.Join(gives, ", "), ": ", when)
	}
}

func (d *drawing) reruns() {
	for _, r := range d.Reruns {
		text := fmt.Sprintf("%s %s has run %d times", r.Class, r.Container, r.Restarts+1)
		if r.Restarts == 0 {
			text = fmt.Sprintf("%s %s", r.Class, r.Container)
		}
		if r.LastExit != nil {
			text += fmt.Sprintf(", the run before ended with exit code %d", *r.LastExit)
			if r.LastEnd != nil {
				text += " at " + d.at(r.LastEnd)
			}
		}
		if r.Earlier {
			text += ": what its status shows is of an earlier cycle, and it will run again"
		}
		d.Line("  ", d.Paint(render.Yellow, d.Dot), " ", text)
	}
}

// took is how long a phase took, or has taken so far.
func (d *drawing) took(p *Phase) string {
	switch {
	case p.From == nil:
		return ""
	case p.To != nil:
		return p.To.Sub(*p.From).String()
	case p.State == Current && !d.now.IsZero():
		return d.now.Sub(*p.From).Truncate(time.Second).String()
	}
	return ""
}

// at writes a moment, with its date when it is not today's.
func (d *drawing) at(t *time.Time) string {
	if t == nil {
		return ""
	}
	if sameDay(*t, d.now) {
		return t.Format(time.TimeOnly)
	}
	return clock(*t)
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Format(time.DateOnly) == b.UTC().Format(time.DateOnly)
}

// clock writes a moment, in UTC as everything in Kubernetes.
func clock(t time.Time) string { return t.UTC().Format(time.DateTime + "Z") }
