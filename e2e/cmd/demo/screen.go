package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// style is an ANSI style.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

const (
	labelWidth = 12
	barWidth   = 32
)

// screen is what is shown on: a terminal, or a file without colours.
type screen struct {
	io.Writer
	width    int
	terminal bool
	colour   bool

	label   string // of the line before
	subject string // what the line before is about, while it may be continued
	column  int    // where that ends
}

// newScreen finds out whether a file is a terminal, how wide it is and whether it wants colours.
func newScreen(f *os.File) *screen {
	s := &screen{Writer: f, width: 110}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.terminal = true
		s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width > 0 {
			s.width = min(max(width, 80), 130)
		}
	}
	return s
}

func (s *screen) paint(how style, text string) string {
	if !s.colour || how == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(how) + "m" + text + "\x1b[0m"
}

// verdict is a mark for good or bad, with or without colour.
func (s *screen) verdict(good bool) string {
	if good {
		return s.paint(green, "✓")
	}
	return s.paint(red, "✗")
}

func (s *screen) title(text string) {
	s.end()
	rule := max(3, s.width-utf8.RuneCountInString(text)-4)
	line := s.paint(dim, strings.Repeat("─", rule))
	fmt.Fprintf(s, "\n%s %s %s\n", s.paint(dim, "──"), s.paint(bold, text), line)
}

// step does something that takes a while, and says what on a terminal and how long it took everywhere.
func (s *screen) step(what string, do func() error) error {
	if s.terminal {
		fmt.Fprintf(s, "  … %s", what)
	}
	began := time.Now()
	err := do()
	if s.terminal {
		fmt.Fprint(s, "\r")
	}
	fmt.Fprintf(s, "  %s %s %s\n", s.verdict(err == nil), what, s.paint(dim, seconds(time.Since(began))))
	return err
}

// raw shows a line of text as it is, beside its label.
func (s *screen) raw(label string, how style, text string) {
	s.begin(label, how)
	fmt.Fprintln(s, text)
}

// line shows text beside a label, broken at words.
func (s *screen) line(label string, how style, text string) {
	s.end()
	s.label = ""
	for _, part := range s.wrap(text) {
		s.raw(label, how, part)
	}
}

// more shows text of the form "SUBJECT: TEXT" beside a label. If the line before is about the same subject and
// has room, the text goes there.
func (s *screen) more(label string, how style, text string) {
	subject, rest, _ := strings.Cut(text, ": ")
	addition := " · " + rest
	if label != s.label || subject != s.subject || s.column+utf8.RuneCountInString(addition) > s.width {
		parts := s.wrap(text)
		last := len(parts) - 1
		for _, part := range parts[:last] {
			s.raw(label, how, part)
		}
		s.begin(label, how)
		s.subject, s.column, addition = subject, 2+labelWidth, parts[last]
	}
	fmt.Fprint(s, addition)
	s.column += utf8.RuneCountInString(addition)
}

// begin begins a line with a label, which is left out when the line before has it.
func (s *screen) begin(label string, how style) {
	s.end()
	shown := label
	if label == s.label {
		shown = ""
	}
	s.label = label
	fmt.Fprintf(s, "  %s", s.paint(how, pad(shown, labelWidth)))
}

// end ends a line that might have been continued.
func (s *screen) end() {
	if s.column > 0 {
		fmt.Fprintln(s)
	}
	s.column, s.subject = 0, ""
}

// bar shows how much of a device is reserved.
func (s *screen) bar(d stack.LedgerDevice) string {
	reserved, capacity := d.Reserved.MemoryMiB, d.Capacity.MemoryMiB
	full := 0
	if reserved > 0 {
		full = max(1, int(min(reserved, capacity)*barWidth/max(1, capacity)))
	}
	how, rest := cyan, fmt.Sprintf("%d free", capacity-reserved)
	if reserved > capacity {
		how, rest = red, fmt.Sprintf("%d too many", reserved-capacity)
	}
	return fmt.Sprintf("%s %s%s %d of %d MiB, %s", pad(d.UUID, 20),
		s.paint(how, strings.Repeat("█", full)), s.paint(dim,
			strings.Repeat("░", barWidth-full)), reserved, capacity, rest)
}

// wrap breaks text at spaces into lines that fit beside a label, at least one.
func (s *screen) wrap(text string) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			switch {
			case line == "":
				line = word
			case 2+labelWidth+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= s.width:
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// pad fills text with spaces up to a width in runes.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
