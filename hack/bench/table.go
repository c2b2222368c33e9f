package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// row is a line of the table, all text.
type row struct{ name, ours, baseline, ratio, allocations, bytes, budget, met string }

func header() row {
	return row{"benchmark", "phasegpu", "baseline", "ratio", "allocs/op", "B/op", "budget", "met"}
}

func (r row) cells() []string {
	return []string{r.name, r.ours, r.baseline, r.ratio, r.allocations, r.bytes, r.budget, r.met}
}

// rows sets each benchmark beside its baseline, with what it reports beside its time below it, and the
// comparisons last. The ratio is how many times as much the baseline takes, or, of a comparison, the first over
// the second.
func rows(m *measurement, l *limits) []row {
	var all []row
	for _, name := range m.names {
		for _, unit := range m.units(name) {
			r := row{name: name}
			if unit != "ns/op" {
				r.name += ":" + unit
			} else {
				r.allocations, r.bytes = m.ours[name].count("allocs/op"), m.ours[name].count("B/op")
			}
			ours, ok := m.ours[name].median(unit)
			if ok {
				r.ours = format(ours, unit)
			}
			if peer, both := m.peer[name].median(unit); both {
				if r.baseline = format(peer, unit); ok && ours > 0 {
					r.ratio = significant(peer/ours) + " ×"
				}
			}
			if b, limited := l.budgets[r.name]; limited && ok {
				r.hold(&b, ours)
			}
			all = append(all, r)
		}
	}
	for _, c := range l.comparisons {
		ours, ok := m.ours[c.name].median("ns/op")
		over, both := m.ours[c.over].median("ns/op")
		if !ok || !both || over == 0 {
			continue // not in this run
		}
		r := row{name: c.title, ours: format(ours, "ns/op"), baseline: format(over, "ns/op"), ratio: significant(ours / over)}
		if c.budget != nil {
			r.hold(c.budget, ours/over)
		}
		all = append(all, r)
	}
	return all
}

// hold holds a value to a budget.
func (r *row) hold(b *budget, value float64) {
	r.budget, r.met = b.text, "yes"
	if value > b.most {
		r.met = "NO"
	}
}

// units lists what a benchmark reports and has a row for, its time first.
func (m *measurement) units(name string) []string {
	var units []string
	for _, side := range []values{m.ours[name], m.peer[name]} {
		for unit := range side {
			if unit != "allocs/op" && unit != "B/op" && !slices.Contains(units, unit) {
				units = append(units, unit)
			}
		}
	}
	slices.SortFunc(units, func(a, b string) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a != "ns/op"), fmt.Sprint(b != "ns/op")), strings.Compare(a, b))
	})
	return units
}

// count writes a number in full.
func (v values) count(unit string) string {
	n, ok := v.median(unit)
	if !ok {
		return ""
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// format writes a value in a unit of its size: times and bytes.
func format(value float64, unit string) string {
	type step struct {
		size float64
		name string
	}
	var steps []step
	switch {
	case unit == "ns/op" || strings.HasSuffix(unit, "-ns"):
		steps = []step{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}}
	case strings.HasPrefix(unit, "B/"):
		steps = []step{{1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	default:
		return significant(value)
	}
	for _, s := range steps {
		if value >= s.size || s.size == 1 {
			return significant(value/s.size) + " " + s.name
		}
	}
	return ""
}

// significant writes three digits of a number, or all before the point.
func significant(value float64) string {
	switch {
	case value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// made says how a measurement was made.
func (m *measurement) made() string {
	var facts []string
	for _, key := range []string{"date", "commit", "cpu", "processors", "go", "benchtime", "count"} {
		if value := m.facts[key]; value != "" {
			facts = append(facts, key+" "+value)
		}
	}
	return strings.Join(facts, ", ")
}

func writeText(out io.Writer, m *measurement, rows []row) error {
	rows = append([]row{header()}, rows...)
	var widths [8]int
	for _, r := range rows {
		for i, cell := range r.cells() {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, r := range rows {
		line := ""
		for i, cell := range r.cells() {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line += cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("\n" + m.made() + "\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func writeMarkdown(out io.Writer, m *measurement, rows []row) error {
	var b strings.Builder
	b.WriteString("| " + strings.Join(header().cells(), " | ") + " |\n|---|" + strings.Repeat("---:|", 7) + "\n")
	for _, r := range rows {
		cells := r.cells()
		if strings.ContainsAny(r.name, "/=") && !strings.Contains(r.name, " ") {
			cells[0] = "`" + r.name + "`"
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	b.WriteString("\nMeasured with `make bench`: " + m.made() + ".\n")
	_, err := io.WriteString(out, b.String())
	return err
}
