package main

import (
	"fmt"
	"strconv"
	"strings"
)

// limits are what limits.txt says.
type limits struct {
	names       []string       // of the benchmarks whose allocations are limited, in the file's order
	allocations map[string]int // per operation, by benchmark
	budgets     map[string]budget
	comparisons []comparison
}

// budget is the most that a value may be.
type budget struct {
	text string // as it is written, "≤ 10 ms"
	most float64
}

// comparison is one benchmark of ours over another.
type comparison struct {
	title      string
	name, over string
	budget     *budget
}

// parseLimits reads the lines of limits.txt, which explains them.
func parseLimits(text string) (*limits, error) {
	l := &limits{allocations: map[string]int{}, budgets: map[string]budget{}}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		read := l.benchmark
		if strings.Contains(line, " / ") {
			read = l.comparison
		}
		if err := read(line); err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	return l, nil
}

// benchmark reads "name[:unit] allocations [≤ value unit]".
func (l *limits) benchmark(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return fmt.Errorf(`want "name allocations [≤ value unit]"`)
	}
	name := fields[0]
	if _, twice := l.allocations[name]; twice {
		return fmt.Errorf("%s is listed twice", name)
	}
	if fields[1] != "-" {
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return fmt.Errorf(`allocations are a number or "-", not %s`, fields[1])
		}
		l.names = append(l.names, name)
		l.allocations[name] = n
	}
	if len(fields) == 2 {
		return nil
	}
	b, err := parseBudget(fields[2:])
	l.budgets[name] = b
	return err
}

// comparison reads "title: name / name [≤ value]".
func (l *limits) comparison(line string) error {
	title, rest, ok := strings.Cut(line, ": ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 3 || fields[1] != "/" {
		return fmt.Errorf(`want "title: name / name [≤ value]"`)
	}
	c := comparison{title: title, name: fields[0], over: fields[2]}
	if len(fields) > 3 {
		b, err := parseBudget(fields[3:])
		if err != nil {
			return err
		}
		c.budget = &b
	}
	l.comparisons = append(l.comparisons, c)
	return nil
}

// parseBudget reads "≤ value [unit]" and returns it in the unit that benchmarks report: nanoseconds or bytes.
func parseBudget(fields []string) (budget, error) {
	b := budget{text: strings.Join(fields, " ")}
	factor := 1.0
	if len(fields) == 3 {
		var ok bool
		factor, ok = map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[fields[2]]
		if !ok {
			return b, fmt.Errorf("unit %s is none of ns, µs, ms, s, B, KiB, MiB", fields[2])
		}
	}
	if len(fields) < 2 || len(fields) > 3 || fields[0] != "≤" {
		return b, fmt.Errorf(`a budget is "≤ value unit", not %q`, b.text)
	}
	value, err := strconv.ParseFloat(fields[1], 64)
	b.most = value * factor
	return b, err
}
