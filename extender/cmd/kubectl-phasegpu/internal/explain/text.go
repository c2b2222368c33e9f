package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Text draws the pods one after the other. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	p := s.To(w)
	for i := range r.Pods {
		if i > 0 {
			p.Line()
			p.Line()
		}
		r.Pods[i].draw(p)
	}
	return p.Err
}

// draw draws one pod: a table of its containers beside a timeline of its phases, the phases' totals below it, and
// what is reserved now.
func (e *Explanation) draw(p *render.Printer) {
	d := drawing{Explanation: e, Printer: p}
	d.header()
	d.layout()
	for from := 0; from < len(e.Phases); from += d.perBlock {
		d.block(from, min(from+d.perBlock, len(e.Phases)))
	}
	if d.compact {
		d.phaseTable()
	}
	d.summary()
	d.reserved()
}

type drawing struct {
	*Explanation
	*render.Printer

	table    []row // by position
	widths   row   // of the table's columns
	left     int   // columns of the table
	column   int   // columns of a phase, without the gap behind it
	gap      int   // columns between phases
	perBlock int   // phases side by side
	compact  bool  // the phases are too many for their names and numbers: these go in a table of their own
}

// row is a line of the table.
type row [6]string

var heading = row{"#", "container", "class", "devices", "memory each", "cores"}

// rightAligned are the columns of numbers.
var rightAligned = [6]bool{true, false, false, false, true, true}

const (
	indent   = "  "
	maxName  = 28
	minPhase = 7
	maxPhase = 18
	rows     = 3 // of the skyline
)

func (d *drawing) header() {
	parts := []string{d.Bold(d.Title)}
	inits := d.text.classes.Steady()
	switch {
	case d.text.node == "" && d.text.progress.Terminal:
		parts = append(parts, "ended without a node")
	case d.text.node == "":
		parts = append(parts, "not bound to a node")
	case d.text.progress.Terminal:
		parts = append(parts, "ended on "+d.text.node)
	default:
		parts = append(parts, "on "+d.text.node)
		if inits > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s complete", d.CompletedInits,
				render.Count(int64(inits), "init")))
		}
	}
	if inits > 0 {
		parts = append(parts, "release "+d.text.release.String())
	}
	d.Line(strings.Join(parts, "  "+d.Dot+"  "))
	d.Line()
}

// layout decides on the width of everything.
func (d *drawing) layout() {
	d.table = make([]row, len(d.Containers))
	for i, c := range d.Containers {
		r := row{strconv.Itoa(c.Position), d.Cut(c.Name, maxName), c.Class, d.None, "", ""}
		if c.Devices > 0 {
			r[3] = fmt.Sprintf("%d %s %s", c.Devices, d.Times, c.Family)
			r[4], r[5] = memoryEach(c), cores(c.Cores, d.None)
		}
		d.table[i] = r
	}
	for _, r := range append([]row{heading}, d.table...) {
		for i, cell := range r {
			if render.Width(cell) > render.Width(d.widths[i]) {
				d.widths[i] = cell
			}
		}
	}
	d.left = len(indent)
	for _, widest := range d.widths {
		d.left += render.Width(widest) + 2
	}
	longest, number := 0, minPhase
	for k, p := range d.Phases {
		longest = max(longest, render.Width(p.Name)+2) // room for the tick
		for _, f := range d.text.families {
			number = max(number, render.Width(memory(f.phases[k].MemoryMiB))+2) // and for the mark of the peak
		}
	}
	n, room := len(d.Phases), d.Screen.Width-d.left-2
	d.gap = 1
	// As wide as the names want, as far as all phases then stand side by side.
	d.column = min(longest, maxPhase, (room+d.gap)/n-d.gap)
	if d.column < number && n > 1 {
		d.compact = true
		if d.column < 1 {
			d.column, d.gap = 1, 0
		}
	}
	if !d.compact {
		d.column = max(d.column, number)
	}
	d.perBlock = max(1, (room+d.gap)/(d.column+d.gap))
	if !d.compact {
		d.perBlock = n
	}
}

func memoryEach(c Container) string {
	switch {
	case c.MemoryPercent > 0:
		return fmt.Sprintf("%d %% of card", c.MemoryPercent)
	case c.MemoryMiB == nil:
		return "whole card"
	default:
		return fmt.Sprintf("%d MiB", *c.MemoryMiB)
	}
}

func cores(percent int64, none string) string {
	if percent == 0 {
		return none
	}
	return fmt.Sprintf("%d %%", percent)
}

// memory writes a total, "?" where only a device can settle it.
func memory(mib *int64) string {
	if mib == nil {
		return "?"
	}
	return strconv.FormatInt(*mib, 10)
}

// block draws the phases from index from up to to.
func (d *drawing) block(from, to int) {
	if d.perBlock < len(d.Phases) {
		d.Line(indent, d.Bold(fmt.Sprintf("phases %d to %d of %d", from+1, to, len(d.Phases))))
	}
	if d.running() && d.CompletedInits >= from && d.CompletedInits < to {
		d.line("", "", func(k int) (string, render.Style) {
			if k == d.CompletedInits {
				if d.compact {
					return d.Now, render.Bold
				}
				return d.Now + " now", render.Bold
			}
			return "", render.Plain
		}, from, to)
	}
	d.line(d.cells(heading), render.Dim, func(k int) (string, render.Style) {
		style := render.Bold
		if d.completed(k) {
			style = render.Dim
		}
		return d.phaseHeading(k), style
	}, from, to)
	d.rule(d.Cross, from, to)
	for i := range d.Containers {
		if d.aliveWithin(i, from, to) {
			d.bar(i, from, to)
		}
	}
	d.rule(d.Cross, from, to)
	for i := range d.text.families {
		d.family(&d.text.families[i], from, to)
	}
	d.Line()
}

// phaseHeading is a phase's name with a tick when it is over; in the compact form its number, of which
// a narrow column shows the last digits.
func (d *drawing) phaseHeading(k int) string {
	switch name := d.Phases[k].Name; {
	case d.compact:
		number := strconv.Itoa(k + 1)
		return number[max(0, len(number)-d.column):]
	case d.completed(k):
		return d.Cut(name, d.column-render.Width(d.Tick)-1) + " " + d.Tick
	default:
		return d.Cut(name, d.column)
	}
}

// running reports whether the pod has a node and has not ended.
func (d *drawing) running() bool { return d.text.node != "" && !d.text.progress.Terminal }

// completed reports whether a phase is over; released whether its memory has been given back.
func (d *drawing) completed(k int) bool { return d.text.node != "" && k < d.CompletedInits }
func (d *drawing) released(k int) bool  { return d.text.node != "" && k < d.text.first }

func (d *drawing) aliveWithin(position, from, to int) bool {
	for k := from; k < to; k++ {
		if d.text.classes.Alive(k, position) {
			return true
		}
	}
	return false
}

func (d *drawing) cells(r row) string {
	var b strings.Builder
	for i, cell := range r {
		width := render.Width(d.widths[i])
		if rightAligned[i] {
			b.WriteString(render.Right(cell, width))
		} else {
			b.WriteString(render.Left(cell, width))
		}
		b.WriteString("  ")
	}
	return b.String()
}

// line draws a label and one cell per phase.
func (d *drawing) line(label string, style render.Style, cell func(k int) (string, render.Style), from, to int) {
	parts := []string{indent, d.Paint(style, render.Left(label, d.left-len(indent))), d.Vertical, " "}
	for k := from; k < to; k++ {
		text, style := cell(k)
		parts = append(parts, d.Paint(style, render.Left(text, d.column)), strings.Repeat(" ", d.gap))
	}
	d.Line(parts...)
}

func (d *drawing) rule(cross string, from, to int) {
	d.Line(indent, d.Paint(render.Dim, strings.Repeat(d.Horizontal, d.left-len(indent))+cross+
		strings.Repeat(d.Horizontal, 1+(to-from)*(d.column+d.gap))))
}

var classStyle = map[string]render.Style{"init": render.Yellow, "sidecar": render.Cyan, "app": render.Green}

// bar draws a container over the phases in which it is alive: thick with devices, thin without, light
// where its phases have been given back, with an arrow when it goes on to the pod's end.
func (d *drawing) bar(position, from, to int) {
	c := d.Containers[position]
	parts := []string{indent, d.cells(d.table[position]), d.Vertical, " "}
	style := classStyle[c.Class]
	for k := from; k < to; k++ {
		if !d.text.classes.Alive(k, position) {
			parts = append(parts, strings.Repeat(" ", d.column+d.gap))
			continue
		}
		glyph, paint := d.Full, style
		if d.released(k) {
			glyph, paint = d.Light, render.Dim
		}
		if c.Devices == 0 {
			glyph = d.Thin
		}
		segment := strings.Repeat(glyph, d.column)
		switch last := k == len(d.Phases)-1; {
		case last:
			segment = strings.Repeat(glyph, d.column-1) + d.Arrow
		case d.text.classes.Alive(k+1, position):
			segment += strings.Repeat(glyph, d.gap)
		default:
			segment += strings.Repeat(" ", d.gap)
		}
		parts = append(parts, d.Paint(paint, segment))
	}
	d.Line(parts...)
}
