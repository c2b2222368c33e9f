package top

import (
	"fmt"
	"io"
	"strings"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// Text writes the list as a table, its sums below. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	t := table{Printer: s.To(w)}
	switch {
	case len(r.Nodes) > 0:
		r.nodes(&t)
	case len(r.Devices) > 0:
		r.devices(&t)
	case len(r.Namespaces) > 0:
		r.namespaces(&t)
	default:
		t.Line("nothing has to do with devices")
	}
	t.write()
	return t.Err
}

const barWidth = 16

// columns are those of Amounts, as head takes them.
func columns() []string {
	return []string{
		"|memory", "<reserved", "<steady", "<releasable", "<free", "<of MiB", "<cores, %", "<slots", "<pods", "notes",
	}
}

func (r *Report) nodes(t *table) {
	t.head(append([]string{"node", "devices"}, columns()...)...)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		t.row(t.amounts([]string{n.Name, count(n.Devices, n.Family, t)}, n.Amounts, n.Pods, n.Notes))
	}
	for i := range r.Sums {
		s := &r.Sums[i]
		first := []string{render.Count(int64(s.Lines), "node"), count(s.Devices, s.Family, t)}
		t.sum(t.amounts(first, s.Amounts, s.Pods, nil))
	}
}

func (r *Report) devices(t *table) {
	t.head(append([]string{"node", "device", "model"}, columns()...)...)
	for i := range r.Devices {
		d := &r.Devices[i]
		t.row(t.amounts([]string{d.Node, d.UUID, d.Model}, d.Amounts, d.Pods, d.Notes))
	}
	for i := range r.Sums {
		s := &r.Sums[i]
		t.sum(t.amounts([]string{"", count(s.Devices, s.Family, t), ""}, s.Amounts, s.Pods, nil))
	}
}

func (r *Report) namespaces(t *table) {
	t.head("namespace", "family", "<devices", "<MiB reserved", "<steady", "<releasable", "limits", "<cores, %",
		"limits",
		"<pods", "<waiting")
	row := func(first, family string, a Amounts, limits []Limit, pods, waiting int) []string {
		cells := []string{first, family}
		for _, n := range []int64{a.Reserved.Slots, a.Reserved.MemoryMiB, a.Steady.MemoryMiB, a.Releasable.MemoryMiB} {
			cells = append(cells, fmt.Sprint(n))
		}
		return append(cells, lines(limits, ledger.Memory), fmt.Sprint(a.Reserved.Cores), lines(limits, ledger.Cores),
			fmt.Sprint(pods), fmt.Sprint(waiting))
	}
	for i := range r.Namespaces {
		n := &r.Namespaces[i]
		t.row(row(n.Name, n.Family, n.amounts(), n.Limits, n.Pods, n.Waiting))
	}
	for i := range r.Sums {
		s := &r.Sums[i]
		t.sum(row(render.Count(int64(s.Lines), "namespace"), s.Family, s.Amounts, nil, s.Pods, s.Waiting))
	}
}

// lines writes a namespace's limits of one dimension.
func lines(limits []Limit, dimension ledger.Dimension) string {
	var parts []string
	for _, l := range limits {
		if l.dimension == dimension {
			parts = append(parts, fmt.Sprintf("%s %d of %d", l.Quota, l.Used, l.Max))
		}
	}
	return strings.Join(parts, ", ")
}

func count(devices int, family string, t *table) string {
	if family == "" {
		return t.None
	}
	return fmt.Sprintf("%d %s %s", devices, t.Times, family)
}

// table collects cells, and writes them when all widths are known.
type table struct {
	*render.Printer
	names []string
	right []bool
	rows  [][]string
	sums  [][]string
	bars  map[int]Amounts // by row; the cell is drawn
	bar   int             // the column of bars, -1 for none
}

// head names the columns; < is one of numbers, | one of bars.
func (t *table) head(names ...string) {
	t.bar, t.bars = -1, map[int]Amounts{}
	for i, name := range names {
		text, right := strings.CutPrefix(name, "<")
		text, bar := strings.CutPrefix(text, "|")
		if bar {
			t.bar = i
		}
		t.names, t.right = append(t.names, text), append(t.right, right)
	}
}

func (t *table) row(cells []string) { t.rows = append(t.rows, cells) }
func (t *table) sum(cells []string) { t.sums = append(t.sums, cells) }

// amounts is a line with amounts behind its first cells.
func (t *table) amounts(first []string, a Amounts, pods int, notes []string) []string {
	t.bars[len(t.rows)+len(t.sums)] = a
	cells := append(first, "")
	for _, n := range []report.Amount{a.Reserved, a.Steady, a.Releasable, a.Free, a.Capacity} {
		cells = append(cells, fmt.Sprint(n.MemoryMiB))
	}
	return append(cells,
		fmt.Sprintf("%d of %d", a.Reserved.Cores, a.Capacity.Cores),
		fmt.Sprintf("%d of %d", a.Reserved.Slots, a.Capacity.Slots),
		fmt.Sprint(pods), strings.Join(notes, "; "))
}

func (t *table) write() {
	if len(t.names) == 0 {
		return
	}
	widths := make([]int, len(t.names))
	all := append(append([][]string{t.names}, t.rows...), t.sums...)
	for _, cells := range all {
		for i, cell := range cells {
			widths[i] = max(widths[i], render.Width(cell))
		}
	}
	if t.bar >= 0 {
		widths[t.bar] = barWidth
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for i, cells := range all {
		style := render.Plain
		switch {
		case i == 0:
			style = render.Dim
		case i > len(t.rows):
			style = render.Bold
		}
		if i == len(t.rows)+1 {
			rule := strings.Repeat(t.Horizontal, min(total, max(t.Screen.Width, 20)))
			t.Line(t.Paint(render.Dim, rule))
		}
		var parts []string
		for k, cell := range cells {
			gap := "  "
			if k == len(cells)-1 {
				gap = ""
			}
			switch {
			case k == t.bar && i > 0:
				parts = append(parts, t.draw(t.bars[i-1]), gap)
			case t.right[k]:
				parts = append(parts, t.Paint(style, render.Right(cell, widths[k])), gap)
			default:
				parts = append(parts, t.Paint(style, render.Left(cell, widths[k])), gap)
			}
		}
		t.Line(parts...)
	}
}

// draw draws memory: what stays when init containers have ended, what they will release, and what is free.
func (t *table) draw(a Amounts) string {
	steady, rest := t.Bar(a.Steady.MemoryMiB, a.Capacity.MemoryMiB, barWidth)
	reserved, free := t.Bar(a.Reserved.MemoryMiB, a.Capacity.MemoryMiB, barWidth)
	releasable := max(0, render.Width(reserved)-render.Width(steady))
	if a.Releasable.MemoryMiB > 0 && releasable == 0 && render.Width(rest) > 0 {
		releasable, free = 1, string([]rune(free)[min(1, render.Width(free)):]) // something is seen
	}
	half := strings.Repeat(t.Half, releasable)
	return t.Good(steady) + t.Paint(render.Yellow, half) + t.Paint(render.Dim, free)
}
