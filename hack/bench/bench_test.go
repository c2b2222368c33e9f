package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example.com/core
BenchmarkFit/containers=1/by=phasegpu-2     1000000    500.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=phasegpu-2     1000000    900.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=phasegpu-2     1000000    600.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=peer-2         1000000     60.0 ns/op    0 B/op    7 allocs/op
BenchmarkMemory/by=phasegpu-2                     1    900.0 B/pod   2048 B/node   12345 B/op  77 allocs/op
BenchmarkFilter/nodes=1000/by=phasegpu-2  1000  2500000 ns/op  8000000 p99-ns  1234567 B/op  1234 allocs/op
PASS
`

func TestLimits(t *testing.T) {
	for _, c := range []struct{ name, limits, table, gate string }{
		{"the median", "Fit/containers=1 ns/op 600", "Fit/containers=1 ns/op 600 600 yes", ""},
		{"a budget that is missed", "Fit/containers=1 ns/op 599", "Fit/containers=1 ns/op 600 599 NO", ""},
		{"a unit of the benchmark's own", "Filter/nodes=1000 p99-ns 7.5e6", "Filter/nodes=1000 p99-ns 8e+06 7.5e+06 NO", ""},
		{"bytes", "Memory B/pod 1024", "Memory B/pod 900 1024 yes", ""},
		{"a ratio", "Filter/nodes=1000 / Fit/containers=1 ns/op 5000",
			"Filter/nodes=1000 / Fit/containers=1 ns/op 4166.67 5000 yes", ""},
		{"as many allocations as allowed", "Filter/nodes=1000 allocs/op 1234", "Filter/nodes=1000 allocs/op 1234 1234 yes", ""},
		{"fewer", "# why\n\nFilter/nodes=1000 allocs/op 1235", "Filter/nodes=1000 allocs/op 1234 1235 yes", ""},
		{"one more", "Filter/nodes=1000 allocs/op 1233", "Filter/nodes=1000 allocs/op 1234 1233 NO", "1234, at most 1233"},
		{"no such benchmark", "Gone allocs/op 1", "", "Gone allocs/op: there is no such benchmark"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := run(strings.NewReader(output), &out, c.limits, false); err != nil {
				t.Fatal(err)
			}
			_, rows, _ := strings.Cut(out.String(), "\n")
			if got := strings.Join(strings.Fields(rows), " "); got != c.table {
				t.Errorf("table %q, want %q", got, c.table)
			}
			err := run(strings.NewReader(output), &out, c.limits, true)
			if (err != nil) != (c.gate != "") || err != nil && !strings.Contains(err.Error(), c.gate) {
				t.Errorf("gate: %v, want %q", err, c.gate)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct{ limits, output, says string }{
		{"Fit", "", `want "name unit most"`},
		{"Fit ns/op many", "", "invalid syntax"},
		{"Fit / Rate 1", "", `want "name unit most"`},
		{"Fit ns/op 1", "BenchmarkFit 100 five ns/op\n", "parsing"},
	} {
		err := run(strings.NewReader(c.output), new(strings.Builder), c.limits, false)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q with %q: %v, want an error with %q", c.limits, c.output, err, c.says)
		}
	}
	if _, err := parseLimits(limitsText); err != nil {
		t.Errorf("limits.txt: %v", err)
	}
}
