// Command bench reads the output of benchmarks on standard input and sets it beside the limits of limits.txt: one
// line for each limit, with what was measured, the limit, and whether it holds. `make bench` has the whole run.
//
// With -gate it exits 1 when a benchmark allocates more often than its limit, or is missing. Allocations are exact
// with -benchtime 100x, -cpu 1 and GOGC=off; times are exact on no machine, so they never fail.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
)

//go:embed limits.txt
var limitsText string

const allocations = "allocs/op"

func main() {
	gate := flag.Bool("gate", false, "check allocations alone, and fail when one is above its limit")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, limitsText, *gate); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, text string, gate bool) error {
	limits, err := parseLimits(text)
	if err != nil {
		return fmt.Errorf("hack/bench/limits.txt: %w", err)
	}
	measured, err := read(in)
	if err != nil {
		return err
	}
	if gate {
		limits = slices.DeleteFunc(limits, func(l limit) bool { return l.unit != allocations })
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "benchmark\tunit\tmeasured\tlimit\tholds\n")
	var broken []string
	for _, l := range limits {
		got, ok := l.measured(measured)
		holds := map[bool]string{true: "yes", false: "NO"}[got <= l.most]
		switch {
		case !ok && !gate:
			continue // it was not among the benchmarks that were run
		case !ok:
			broken = append(broken, l.String()+": there is no such benchmark")
			continue
		case got > l.most:
			broken = append(broken, fmt.Sprintf("%v: %s, at most %s", l, number(got), number(l.most)))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", l.title(), l.unit, number(got), number(l.most), holds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if gate && len(broken) > 0 {
		return fmt.Errorf("limits are exceeded; mend the code, or raise the limit in hack/bench/limits.txt and say why:\n%s",
			strings.Join(broken, "\n"))
	}
	return nil
}

// limit is one line of limits.txt.
type limit struct {
	name, over string // over is the benchmark that name is divided by, "" for none
	unit       string
	most       float64
}

func (l limit) title() string {
	if l.over != "" {
		return l.name + " / " + l.over
	}
	return l.name
}

func (l limit) String() string { return l.title() + " " + l.unit }

// parseLimits reads lines "name unit most" and "name / name unit most".
func parseLimits(text string) ([]limit, error) {
	var limits []limit
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		l := limit{name: f[0]}
		if len(f) == 5 && f[1] == "/" {
			l.over, f = f[2], f[2:]
		}
		if len(f) != 3 {
			return nil, fmt.Errorf(`line %d, %q: want "name unit most" or "name / name unit most"`, i+1, line)
		}
		most, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
		l.unit, l.most = f[1], most
		limits = append(limits, l)
	}
	return limits, nil
}

// results are the measured values by benchmark, without "/by=phasegpu", and unit.
type results map[string]map[string][]float64

// measured returns a limit's value: the median, or the ratio of two.
func (l limit) measured(r results) (float64, bool) {
	value, ok := r.median(l.name, l.unit)
	if !ok || l.over == "" {
		return value, ok
	}
	over, ok := r.median(l.over, l.unit)
	return value / over, ok && over > 0
}

func (r results) median(name, unit string) (float64, bool) {
	all := slices.Sorted(slices.Values(r[name][unit]))
	if len(all) == 0 {
		return 0, false
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// read takes our side of the benchmarks; the baseline's, "/by=peer", is left out.
func read(in io.Reader) (results, error) {
	r := results{}
	var bad []error
	for reader := benchfmt.NewReader(in, "stdin"); reader.Scan(); {
		switch rec := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			bad = append(bad, rec)
		case *benchfmt.Result:
			base, parts := rec.Name.Parts()
			full := string(base)
			for _, part := range parts {
				if part[0] == '/' { // else it is "-2", the number of processors
					full += string(part)
				}
			}
			ours, by, _ := strings.Cut(full, "/by=")
			if by == "peer" {
				continue
			}
			if r[ours] == nil {
				r[ours] = map[string][]float64{}
			}
			for _, v := range rec.Values {
				unit, value := v.Unit, v.Value
				if v.OrigUnit != "" { // as the benchmark printed it
					unit, value = v.OrigUnit, v.OrigValue
				}
				r[ours][unit] = append(r[ours][unit], value)
			}
		}
	}
	return r, errors.Join(bad...)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
