// Package render draws plain text for a terminal: columns, bars and skylines, with or without colour.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Screen is what is drawn on.
type Screen struct {
	Width int  // columns
	Color bool // ANSI colours
	ASCII bool // nothing beyond ASCII
}

// Style is an ANSI style; the zero Style is plain.
type Style string

// The styles in use. Colour never carries meaning alone.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Glyphs are the characters of a drawing.
type Glyphs struct {
	Full, Half, Light, Thin     string
	Arrow                       string
	Tick, Refused, Now, Peak    string
	Vertical, Horizontal, Cross string
	Times, Dot, Ellipsis, None  string
	Levels                      []string // of a cell, from empty to full
}

// Glyphs returns the characters for the screen.
func (s Screen) Glyphs() Glyphs {
	if s.ASCII {
		return Glyphs{"#", "=", ":", "-", ">", "+", "!", "v", "^", "|", "-", "+", "x", "-", "~", "-",
			[]string{" ", ".", "_", "o", "#"}}
	}
	return Glyphs{"█", "▒", "░", "─", "▶", "✓", "✗", "▼", "▲", "│", "─", "┼", "×", "·", "…", "–",
		[]string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}}
}

// Paint puts a style around text when the screen has colours. Pad first: codes have no width.
func (s Screen) Paint(style Style, text string) string {
	if !s.Color || style == Plain || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Width returns the number of columns that unstyled text takes.
func Width(text string) int { return utf8.RuneCountInString(text) }

// Left pads text on the right to a width.
func Left(text string, width int) string { return text + blank(width-Width(text)) }

// Right pads text on the left to a width.
func Right(text string, width int) string { return blank(width-Width(text)) + text }

func blank(n int) string { return strings.Repeat(" ", max(n, 0)) }

// Cut shortens text to a width, with an ellipsis in place of what is gone.
func (s Screen) Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	if width < 2 {
		return strings.Repeat(s.Glyphs().Ellipsis, max(width, 0))
	}
	return string([]rune(text)[:width-1]) + s.Glyphs().Ellipsis
}

// Bar draws part of a whole, both not negative, as full and light cells; a part above zero is seen.
func (s Screen) Bar(part, whole int64, width int) (full, light string) {
	cells := scale(part, whole, width)
	return strings.Repeat(s.Glyphs().Full, cells), strings.Repeat(s.Glyphs().Light, width-cells)
}

// Column returns a value's column of a skyline, top row first: rows cells high at the largest value.
// A faded one is drawn in light whole cells.
func (s Screen) Column(value, largest int64, rows, width int, faded bool) []string {
	g := s.Glyphs()
	steps := len(g.Levels) - 1
	level := scale(value, largest, rows*steps)
	column := make([]string, rows)
	for row := range column {
		fill := min(max(level-(rows-1-row)*steps, 0), steps)
		cell := g.Levels[fill]
		if faded && fill > 0 {
			cell = g.Light
		}
		column[row] = strings.Repeat(cell, width)
	}
	return column
}

// scale returns part/whole of steps, rounded, but not zero for a part above zero.
func scale(part, whole int64, steps int) int {
	if part <= 0 || whole <= 0 {
		return 0
	}
	share := float64(min(part, whole)) / float64(whole)
	return max(1, int(share*float64(steps)+0.5))
}

// Count writes a number with its unit in the right number.
func Count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// Printer draws on a screen. It remembers the first error, so that a drawing need not check each line.
type Printer struct {
	Screen
	Glyphs
	Out io.Writer
	Err error
}

// To returns a printer that writes for the screen.
func (s Screen) To(w io.Writer) *Printer { return &Printer{Screen: s, Glyphs: s.Glyphs(), Out: w} }

// Line writes parts and ends the line, without blanks at its end and without control characters other
// than our own styles: names in a file or an annotation may hold anything.
func (p *Printer) Line(parts ...string) {
	if p.Err == nil {
		_, p.Err = io.WriteString(p.Out, strings.TrimRight(Clean(strings.Join(parts, "")), " ")+"\n")
	}
}

// Bold emphasizes text.
func (p *Printer) Bold(text string) string { return p.Paint(Bold, text) }

// Good is for what is fine.
func (p *Printer) Good(text string) string { return p.Paint(Green, text) }

// Bad is for what is not.
func (p *Printer) Bad(text string) string { return p.Paint(Red, text) }

// Gauge draws part of a whole as Bar does, in colours.
func (p *Printer) Gauge(part, whole int64, width int) string {
	full, light := p.Bar(part, whole, width)
	return p.Paint(Green, full) + p.Paint(Dim, light)
}

// Row is a line of a table, and its style.
type Row struct {
	Style Style
	Cells []string
}

// Table writes rows with aligned columns, two blanks between them; those in right are aligned right. A row may end
// before the last column.
func (p *Printer) Table(indent string, right []int, rows ...Row) {
	var widths []int
	for _, r := range rows {
		for i, cell := range r.Cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	for _, r := range rows {
		cells := make([]string, len(r.Cells))
		for i, cell := range r.Cells {
			if cells[i] = Left(cell, widths[i]); slices.Contains(right, i) {
				cells[i] = Right(cell, widths[i])
			}
		}
		p.Line(indent, p.Paint(r.Style, strings.TrimRight(strings.Join(cells, "  "), " ")))
	}
}

// Names joins the first most names and counts the others.
func Names(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// And joins words as a sentence does.
func And(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// Clean replaces control characters, except for ANSI styles, which can do no harm.
func Clean(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		if n := styleLength(rest); n > 0 {
			b.WriteString(rest[:n])
			rest = rest[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(rest)
		if unicode.IsControl(r) {
			r = utf8.RuneError
		}
		b.WriteRune(r)
		rest = rest[n:]
	}
	return b.String()
}

// styleLength returns the length of the ANSI style that text begins with, 0 when it does not.
func styleLength(text string) int {
	body, ok := strings.CutPrefix(text, "\x1b[")
	if !ok {
		return 0
	}
	digits := len(body) - len(strings.TrimLeft(body, "0123456789"))
	if digits == 0 || digits == len(body) || body[digits] != 'm' {
		return 0
	}
	return len("\x1b[") + digits + 1
}
