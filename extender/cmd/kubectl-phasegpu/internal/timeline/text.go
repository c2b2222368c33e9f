package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Text writes the phases as a table, what has been released when, and what ran again. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{Report: r, screen: s, glyphs: s.Glyphs(), out: render.Printer{Out: w}}
	d.headline()
	d.phases()
	d.releases()
	d.reruns()
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
	parts := []string{d.screen.Paint(render.Bold, fmt.Sprintf("Pod %s/%s", d.Namespace, d.Name))}
	switch {
	case d.Node == "":
		parts = append(parts, "waits for a node")
	case d.Ended:
		parts = append(parts, "ended on "+d.Node)
	default:
		parts = append(parts, "on "+d.Node, fmt.Sprintf("in phase %s, %d of %d", d.Phases[*d.Current].Name, *d.Current+1, len(d.Phases)))
	}
	parts = append(parts, "release "+d.Release)
	d.out.Line(strings.Join(parts, "  "+d.glyphs.Dot+"  "))
	var moments []string
	for _, m := range []struct {
		word string
		at   *time.Time
	}{{"created", d.Created}, {"bound", d.Bound}, {"accepted by kubelet", d.Started}, {"sandbox ready", d.SandboxReady}} {
		if m.at != nil {
			moments = append(moments, m.word+" "+clock(*m.at))
		}
	}
	if len(moments) > 0 {
		d.out.Line("  ", d.screen.Paint(render.Dim, strings.Join(moments, ", ")))
	}
	d.out.Line()
}

// phases writes the table. A phase with several devices takes a line for each.
func (d *drawing) phases() {
	rows := [][]string{{" ", "phase", "from", "to", "took", "alive", "holds", "reserved"}}
	var styles []render.Style
	styles = append(styles, render.Dim)
	for i := range d.Phases {
		p := &d.Phases[i]
		mark, style := " ", render.Plain
		switch p.State {
		case Over:
			mark, style = d.glyphs.Tick, render.Dim
		case Current:
			mark, style = d.glyphs.Now, render.Bold
		case Failed:
			mark, style = d.glyphs.Refused, render.Red
		}
		first := []string{mark, p.Name, d.at(p.From), d.at(p.To), d.took(p), strings.Join(p.Alive, ", ")}
		for line := range max(1, len(p.Holds), len(p.Reserved)) {
			if line > 0 {
				first = []string{"", "", "", "", "", ""}
			}
			rows = append(rows, append(first, held(p.Holds, line), held(p.Reserved, line)))
			styles = append(styles, style)
		}
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], render.Width(cell))
		}
	}
	for i, r := range rows {
		var parts []string
		for k, cell := range r {
			parts = append(parts, render.Left(cell, widths[k]))
		}
		d.out.Line("  ", d.screen.Paint(styles[i], strings.TrimRight(strings.Join(parts, "  "), " ")))
	}
	d.out.Line()
}

func held(holdings []Holding, i int) string {
	if i >= len(holdings) {
		return ""
	}
	return holdings[i].words()
}

func (h *Holding) words() string {
	of := h.UUID
	if of == "" {
		of = fmt.Sprintf("%d %s", h.Slots, h.Family)
	}
	text := of + "  memory known once placed"
	if h.MemoryMiB != nil {
		text = fmt.Sprintf("%s  %d MiB", of, *h.MemoryMiB)
	}
	if h.Cores > 0 {
		text += fmt.Sprintf(", %d %% cores", h.Cores)
	}
	return text
}

// given writes what is given back of a device.
func (h *Holding) given() string {
	var parts []string
	if *h.MemoryMiB > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB", *h.MemoryMiB))
	}
	if h.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%d %% cores", h.Cores))
	}
	if len(parts) == 0 {
		parts = append(parts, render.Count(h.Slots, "slot"))
	}
	return strings.Join(parts, " and ") + " of " + h.UUID
}

func (d *drawing) releases() {
	for _, r := range d.Releases {
		var gives []string
		for i := range r.Gives {
			gives = append(gives, r.Gives[i].given())
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
			mark, verb = d.screen.Paint(render.Green, d.glyphs.Tick), "released "
		}
		if r.At != nil {
			when = d.at(r.At) + ", " + when
		}
		d.out.Line("  ", mark, " ", verb, strings.Join(gives, ", "), ": ", when)
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
		d.out.Line("  ", d.screen.Paint(render.Yellow, d.glyphs.Dot), " ", text)
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
