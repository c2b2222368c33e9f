package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// count is how many tests and subtests ended how. A package that fails although none of its tests did
// (it does not compile, or exits early) is one failure, and so is one that never ends.
type count struct{ passed, failed, skipped int }

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// event is a line of `go test -json`; see `go doc test2json` and `go help buildjson`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// longTest is from how many seconds on a test is named although it passed.
const longTest = 2

// pkg is what is known of a package that has not ended yet.
type pkg struct {
	failed int
	output map[string][]string // by test; "" is the package itself
}

// read shows a stream of events and counts it.
func read(in io.Reader, out io.Writer) (count, error) {
	var c count
	open := map[string]*pkg{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if line := lines.Bytes(); json.Unmarshal(line, &e) != nil || e.Action == "" {
			fmt.Fprintf(out, "%s\n", line)
			continue
		}
		if e.Action == "build-output" {
			fmt.Fprint(out, e.Output)
		}
		if e.Package == "" {
			continue
		}
		p := open[e.Package]
		if p == nil {
			p = &pkg{output: map[string][]string{}}
			open[e.Package] = p
		}
		if p.take(&c, e, out) {
			delete(open, e.Package)
		}
	}
	for _, name := range sortedKeys(open) {
		fmt.Fprintf(out, "FAIL %s: it never ended\n", name)
		open[name].show(out)
		c.failed++
	}
	return c, lines.Err()
}

// take counts and shows an event; it reports whether the package has ended.
func (p *pkg) take(c *count, e event, out io.Writer) (ended bool) {
	switch e.Action {
	case "output":
		p.output[e.Test] = append(p.output[e.Test], e.Output)
		return false
	case "pass", "fail", "skip":
	default:
		return false
	}
	if e.Test != "" {
		p.count(c, e, out)
		return false
	}
	switch e.Action {
	case "pass":
		fmt.Fprintf(out, "ok   %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		if p.failed == 0 {
			c.failed++
		}
		p.show(out)
		fmt.Fprintf(out, "FAIL %s %.1fs\n", e.Package, e.Elapsed)
	}
	return true
}

// count takes the end of a test.
func (p *pkg) count(c *count, e event, out io.Writer) {
	name := fmt.Sprintf("%s %s %.1fs", e.Package, e.Test, e.Elapsed)
	switch e.Action {
	case "pass":
		c.passed++
		if e.Elapsed >= longTest && !strings.Contains(e.Test, "/") {
			fmt.Fprintln(out, "     passed", name)
		}
	case "skip":
		c.skipped++
		fmt.Fprintln(out, "     skipped", name)
		fmt.Fprint(out, strings.Join(p.output[e.Test], ""))
	case "fail":
		c.failed++
		p.failed++
		fmt.Fprintln(out, "     FAILED", name)
		fmt.Fprint(out, strings.Join(p.output[e.Test], ""))
	}
	delete(p.output, e.Test)
}

// show prints what a package and its unfinished tests said.
func (p *pkg) show(out io.Writer) {
	for _, test := range sortedKeys(p.output) {
		fmt.Fprint(out, strings.Join(p.output[test], ""))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
