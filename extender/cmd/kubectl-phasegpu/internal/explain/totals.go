package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

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
			column := d.Column(*f.phases[k].MemoryMiB, highest, rows, d.column, d.released(k))
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
			return text + " " + d.Glyphs.Peak, render.Bold
		case d.released(k):
			return text, render.Dim
		}
		return text, render.Plain
	}, from, to)
}

// phaseTable writes the phases' totals one below the other, for the compact form.
func (d *drawing) phaseTable() {
	columns := []string{"  phase"}
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
				text = d.Glyphs.Peak + " " + text
			}
			cells[k] = append(cells[k], text, strconv.FormatInt(t.Devices, 10), cores(t.Cores, d.None))
		}
	}
	rows, right := []render.Row{{Style: render.Dim, Cells: columns}}, []int{}
	for i := 1; i < len(columns); i++ {
		right = append(right, i)
	}
	for k := range d.Phases {
		mark, style := " ", render.Plain
		switch {
		case d.completed(k):
			mark, style = d.Tick, render.Dim
		case d.running() && k == d.CompletedInits:
			mark, style = d.Now, render.Bold
		}
		cells[k][0] = mark + " " + cells[k][0]
		rows = append(rows, render.Row{Style: style, Cells: cells[k]})
	}
	d.Table(indent, right, rows...)
	d.Line()
}
