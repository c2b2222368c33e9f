package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/render"
)

// Text draws one pod: a table of its containers beside a timeline of its phases, the phases' totals
// below it, and what is reserved now. title is what the pod is called. It returns the writer's error.
func (e *Pod) Text(w io.Writer, s render.Screen, title string) error {
	d := drawing{Pod: e, screen: s, glyphs: s.Glyphs(), out: render.Printer{Out: w}}
	d.header(title)
	d.layout()
	for from := 0; from < len(e.Phases); from += d.perBlock {
		d.block(from, min(from+d.perBlock, len(e.Phases)))
	}
	if d.compact {
		d.phaseTable()
	}
	d.summary()
	d.reserved()
	return d.out.Err
}

type drawing struct {
	*Pod
	screen render.Screen
	glyphs render.Glyphs
	out    render.Printer

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

func (d *drawing) header(title string) {
	parts := []string{d.screen.Paint(render.Bold, title)}
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
			parts = append(parts, fmt.Sprintf("%d of %s complete", d.CompletedInits, render.Count(int64(inits), "init")))
		}
	}
	if inits > 0 {
		parts = append(parts, "release "+d.text.release.String())
	}
	d.out.Line(strings.Join(parts, "  "+d.glyphs.Dot+"  "))
	d.out.Line()
}

// layout decides on the width of everything.
func (d *drawing) layout() {
	d.table = make([]row, len(d.Containers))
	for i, c := range d.Containers {
		r := row{strconv.Itoa(c.Position), d.screen.Cut(c.Name, maxName), c.Class, d.glyphs.None, "", ""}
		if c.Devices > 0 {
			r[3] = fmt.Sprintf("%d %s %s", c.Devices, d.glyphs.Times, c.Family)
			r[4], r[5] = memoryEach(c), cores(c.Cores, d.glyphs.None)
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
	n, room := len(d.Phases), d.screen.Width-d.left-2
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
		d.out.Line(indent, d.screen.Paint(render.Bold, fmt.Sprintf("phases %d to %d of %d", from+1, to, len(d.Phases))))
	}
	if d.running() && d.CompletedInits >= from && d.CompletedInits < to {
		d.line("", "", func(k int) (string, render.Style) {
			if k == d.CompletedInits {
				if d.compact {
					return d.glyphs.Now, render.Bold
				}
				return d.glyphs.Now + " now", render.Bold
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
	d.rule(d.glyphs.Cross, from, to)
	for i := range d.Containers {
		if d.aliveWithin(i, from, to) {
			d.bar(i, from, to)
		}
	}
	d.rule(d.glyphs.Cross, from, to)
	for i := range d.text.families {
		d.family(&d.text.families[i], from, to)
	}
	d.out.Line()
}

// phaseHeading is a phase's name with a tick when it is over; in the compact form its number, of which
// a narrow column shows the last digits.
func (d *drawing) phaseHeading(k int) string {
	switch name := d.Phases[k].Name; {
	case d.compact:
		number := strconv.Itoa(k + 1)
		return number[max(0, len(number)-d.column):]
	case d.completed(k):
		return d.screen.Cut(name, d.column-render.Width(d.glyphs.Tick)-1) + " " + d.glyphs.Tick
	default:
		return d.screen.Cut(name, d.column)
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
	parts := []string{indent, d.screen.Paint(style, render.Left(label, d.left-len(indent))), d.glyphs.Vertical, " "}
	for k := from; k < to; k++ {
		text, style := cell(k)
		parts = append(parts, d.screen.Paint(style, render.Left(text, d.column)), strings.Repeat(" ", d.gap))
	}
	d.out.Line(parts...)
}

func (d *drawing) rule(cross string, from, to int) {
	d.out.Line(indent, d.screen.Paint(render.Dim, strings.Repeat(d.glyphs.Horizontal, d.left-len(indent))+cross+
		strings.Repeat(d.glyphs.Horizontal, 1+(to-from)*(d.column+d.gap))))
}

var classStyle = map[string]render.Style{"init": render.Yellow, "sidecar": render.Cyan, "app": render.Green}

// bar draws a container over the phases in which it is alive: thick with devices, thin without, light
// where its phases have been given back, with an arrow when it goes on to the pod's end.
func (d *drawing) bar(position, from, to int) {
	c := d.Containers[position]
	parts := []string{indent, d.cells(d.table[position]), d.glyphs.Vertical, " "}
	style := classStyle[c.Class]
	for k := from; k < to; k++ {
		if !d.text.classes.Alive(k, position) {
			parts = append(parts, strings.Repeat(" ", d.column+d.gap))
			continue
		}
		glyph, paint := d.glyphs.Full, style
		if d.released(k) {
			glyph, paint = d.glyphs.Light, render.Dim
		}
		if c.Devices == 0 {
			glyph = d.glyphs.Thin
		}
		segment := strings.Repeat(glyph, d.column)
		switch last := k == len(d.Phases)-1; {
		case last:
			segment = strings.Repeat(glyph, d.column-1) + d.glyphs.Arrow
		case d.text.classes.Alive(k+1, position):
			segment += strings.Repeat(glyph, d.gap)
		default:
			segment += strings.Repeat(" ", d.gap)
		}
		parts = append(parts, d.screen.Paint(paint, segment))
	}
	d.out.Line(parts...)
}

// family draws the totals of one family: a skyline of its memory and the numbers below it.
func (d *drawing) family(f *family, from, to int) {
	var highest int64
	for k := range f.phases {
		highest = max(highest, value(f.phases[k].MemoryMiB))
	}
	for r := range rows {
		if highest == 0 || len(d.Phases) == 1 {
			break
		}
		label := ""
		if d.compact && r == rows-1 {
			label = render.Right(f.word+" memory", d.left-len(indent)-2)
		}
		d.line(label, render.Plain, func(k int) (string, render.Style) {
			if f.phases[k].MemoryMiB == nil {
				return strings.Repeat("?", d.column), render.Dim
			}
			column := d.screen.Column(*f.phases[k].MemoryMiB, highest, rows, d.column, d.released(k))
			if d.released(k) {
				return column[r], render.Dim
			}
			return column[r], render.Plain
		}, from, to)
	}
	if d.compact {
		return
	}
	memoryPeak := int64(-1)
	if f.peak.MemoryMiB != nil {
		memoryPeak = *f.peak.MemoryMiB
	}
	d.totals(f.word+" memory, MiB", memoryPeak, func(k int) (int64, string) {
		return value(f.phases[k].MemoryMiB), memory(f.phases[k].MemoryMiB)
	}, from, to)
	d.totals(f.word+" devices", f.peak.Devices, func(k int) (int64, string) {
		return f.phases[k].Devices, strconv.FormatInt(f.phases[k].Devices, 10)
	}, from, to)
	if f.peak.Cores > 0 {
		d.totals(f.word+" cores, %", f.peak.Cores, func(k int) (int64, string) {
			return f.phases[k].Cores, strconv.FormatInt(f.phases[k].Cores, 10)
		}, from, to)
	}
}

// totals draws a row of numbers and marks the largest, unless they are all the same.
func (d *drawing) totals(label string, peak int64, number func(k int) (int64, string), from, to int) {
	varies := false
	for k := range d.Phases {
		n, _ := number(k)
		varies = varies || n < peak
	}
	d.line(render.Right(label, d.left-len(indent)-2), render.Plain, func(k int) (string, render.Style) {
		n, text := number(k)
		switch {
		case n == peak && varies:
			return text + " " + d.glyphs.Peak, render.Bold
		case d.released(k):
			return text, render.Dim
		}
		return text, render.Plain
	}, from, to)
}

// table writes the phases' totals one below the other, for the compact form.
func (d *drawing) phaseTable() {
	columns := []string{"phase"}
	cells := make([][]string, len(d.Phases))
	for k, p := range d.Phases {
		cells[k] = []string{fmt.Sprintf("%*d %s", len(strconv.Itoa(len(d.Phases))), k+1, p.Name)}
	}
	for i := range d.text.families {
		f := &d.text.families[i]
		columns = append(columns, f.word+" MiB", "devices", "cores")
		for k, t := range f.phases {
			text := memory(t.MemoryMiB)
			if t.MemoryMiB != nil && f.peak.MemoryMiB != nil && *t.MemoryMiB == *f.peak.MemoryMiB {
				text = d.glyphs.Peak + " " + text
			}
			cells[k] = append(cells[k], text, strconv.FormatInt(t.Devices, 10), cores(t.Cores, d.glyphs.None))
		}
	}
	widths := make([]int, len(columns))
	for _, r := range append(cells, columns) {
		for i, cell := range r {
			widths[i] = max(widths[i], render.Width(cell))
		}
	}
	format := func(r []string) string {
		text := render.Left(r[0], widths[0])
		for i := 1; i < len(r); i++ {
			text += "  " + render.Right(r[i], widths[i])
		}
		return text
	}
	d.out.Line(indent, "  ", d.screen.Paint(render.Dim, format(columns)))
	for k := range d.Phases {
		mark, style := " ", render.Plain
		switch {
		case d.completed(k):
			mark, style = d.glyphs.Tick, render.Dim
		case d.running() && k == d.CompletedInits:
			mark, style = d.glyphs.Now, render.Bold
		}
		d.out.Line(indent, d.screen.Paint(style, mark+" "+format(cells[k])))
	}
	d.out.Line()
}

// summary says in words what the peak and the steady state are.
func (d *drawing) summary() {
	if len(d.text.families) == 0 {
		d.out.Line(indent, "No container asks for a device.")
		return
	}
	for i := range d.text.families {
		f := &d.text.families[i]
		word := ""
		if len(d.text.families) > 1 {
			word = render.Left(f.word, 8) + " "
		}
		d.out.Line(indent, d.glyphs.Peak, " peak    ", word, d.words(f.peak, f.least), d.where(f))
		if len(d.Phases) > 1 {
			d.out.Line(indent, "  steady  ", word, d.words(f.steady, f.leastSteady))
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
	last := len(names) - 1
	if last == 0 {
		return "  (memory in " + names[0] + ")"
	}
	return "  (memory in " + strings.Join(names[:last], ", ") + " and " + names[last] + ")"
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
	text := "  " + d.glyphs.Dot + "  " + render.Count(n, unit)
	if percent > 0 {
		text += fmt.Sprintf("  %s  %d %% cores", d.glyphs.Dot, percent)
	}
	return text
}

// reserved draws what the books charge now, device by device, beside what the pod's peak takes there.
func (d *drawing) reserved() {
	if d.text.node == "" {
		return
	}
	d.out.Line()
	if d.Reserved == nil {
		d.out.Line(indent, d.screen.Paint(render.Red, "reserved now: unknown, the record cannot be read"))
		return
	}
	d.out.Line(indent, d.screen.Paint(render.Bold, "reserved now"), d.because())
	name := 0
	for _, h := range d.text.devices {
		name = max(name, render.Width(h.uuid))
	}
	for _, h := range d.text.devices {
		const width = 24
		full, light := d.screen.Bar(h.now.MemoryMiB, h.peak.MemoryMiB, width)
		amount := fmt.Sprintf("%d", h.now.MemoryMiB)
		if h.now != h.peak {
			amount += fmt.Sprintf(" of %d", h.peak.MemoryMiB)
		}
		held := d.rest(h.now.Slots, "slot", h.now.Cores)
		if h.now == (device.Amount{}) {
			held = "  " + d.glyphs.Dot + "  given back"
		}
		d.out.Line(indent, "  ", render.Left(h.uuid, name), "  ", d.screen.Paint(render.Green, full), d.screen.Paint(render.Dim, light),
			"  ", amount, " MiB", held)
	}
	for _, t := range d.text.charged {
		d.out.Line(indent, "  namespace ", d.Namespace, " is charged ", fmt.Sprintf("%d MiB", t.MemoryMiB), d.rest(t.Slots, "device", t.Cores),
			d.inFamily(t))
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
		return " for " + SteadyName
	case d.text.first == 0 && d.CompletedInits > 0:
		return fmt.Sprintf(": the largest of all phases (release %s)", d.text.release)
	default:
		return fmt.Sprintf(": the largest phase from %s on", d.Phases[d.text.first].Name)
	}
}
