package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// checkAllocations runs the benchmarks whose allocations are limited and fails when one allocates another number
// of times. One that allocates less fails too: its limit would let the next one allocate more unseen.
//
// What is exact is the number of allocations in 100 operations, but for what happens once and by chance, on one
// processor and without garbage collections, which empty pools; go test divides and drops the fraction.
func checkAllocations(l *limits, out io.Writer) error {
	var printed strings.Builder
	flags := []string{"-test.bench=" + pattern(l.names), "-test.benchtime=100x", "-test.cpu=1"}
	if err := benchmarks(flags, []string{"GOGC=off"}, func(line string) { printed.WriteString(line + "\n") }); err != nil {
		return err
	}
	m, err := parse(strings.NewReader(printed.String()))
	if err != nil {
		return err
	}
	wrong := l.wrong(m)
	for _, w := range wrong {
		fmt.Fprintln(out, w)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d benchmarks do not allocate what %s says: when that is meant, change it there", len(wrong), len(l.names), limitsFile)
	}
	fmt.Fprintf(out, "%d benchmarks allocate what %s says\n", len(l.names), limitsFile)
	return nil
}

// wrong tells of each benchmark that does not allocate what it should.
func (l *limits) wrong(m *measurement) []string {
	var wrong []string
	for _, name := range l.names {
		want := l.allocations[name]
		switch got, ok := m.ours[name].median("allocs/op"); {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s: there is no such benchmark", name))
		case int(got) != want:
			wrong = append(wrong, fmt.Sprintf("%s: %d allocations per operation, want %d", name, int(got), want))
		}
	}
	return wrong
}

// pattern selects our side of benchmarks by their exact names.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		var parts []string
		for _, part := range strings.Split("Benchmark"+name+"/by=phasegpu", "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}
