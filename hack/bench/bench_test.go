package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// output is what two packages print.
const output = `date: 2026-11-30T00:50:00Z
processors: 2
goos: linux
pkg: example.com/core
cpu: Some CPU
BenchmarkFit/containers=1/by=phasegpu-2     1000000    500.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=phasegpu-2     1000000    900.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=phasegpu-2     1000000    600.0 ns/op    0 B/op    0 allocs/op
BenchmarkFit/containers=1/by=peer-2         1000000     60.0 ns/op    0 B/op    0 allocs/op
BenchmarkMemory/by=phasegpu-2                     1    900.0 B/pod   2048 B/node   12345 B/op  77 allocs/op
BenchmarkMemory/by=peer-2                         1     9000 B/pod   1000000 B/node   12345 B/op  77 allocs/op
PASS
pkg: example.com/extender
BenchmarkFilter/nodes=1000/by=phasegpu-2  1000  2500000 ns/op  8000000 p99-ns  1234567 B/op  1234 allocs/op
BenchmarkFilter/nodes=1000/by=peer-2       100  5000000 ns/op  9000000 p99-ns  1234567 B/op  1234 allocs/op
BenchmarkScrape/nodes=5000-2  1000 15000000 ns/op  3.5 MB/scrape
`

const limitsText = `
# comment
Fit/containers=1          0   ≤ 1 µs
Memory:B/pod              -   ≤ 1 KiB
Memory:B/node             -   ≤ 1 KiB
Filter/nodes=1000      1233
Filter/nodes=1000:p99-ns  -   ≤ 7.5 ms
Gone/nodes=1              1
Filter, containers for nodes: Filter/nodes=1000 / Fit/containers=1   ≤ 4000
not in this run: Filter/nodes=1000 / Missing   ≤ 2
`

func measured(t *testing.T) *measurement {
	t.Helper()
	m, err := parse(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTable(t *testing.T) {
	l, err := parseLimits(limitsText)
	if err != nil {
		t.Fatal(err)
	}
	m := measured(t)
	got := rows(m, l)
	want := []row{
		{"Fit/containers=1", "600 ns", "60.0 ns", "0.10 ×", "0", "0", "≤ 1 µs", "yes"},
		{name: "Memory:B/node", ours: "2.00 KiB", baseline: "977 KiB", ratio: "488 ×", budget: "≤ 1 KiB", met: "NO"},
		{name: "Memory:B/pod", ours: "900 B", baseline: "8.79 KiB", ratio: "10.0 ×", budget: "≤ 1 KiB", met: "yes"},
		{name: "Filter/nodes=1000", ours: "2.50 ms", baseline: "5.00 ms", ratio: "2.00 ×", allocations: "1,234", bytes: "1,234,567"},
		{name: "Filter/nodes=1000:p99-ns", ours: "8.00 ms", baseline: "9.00 ms", ratio: "1.12 ×", budget: "≤ 7.5 ms", met: "NO"},
		{name: "Scrape/nodes=5000", ours: "15.0 ms"},
		{name: "Scrape/nodes=5000:MB/scrape", ours: "3.50"},
		{name: "Filter, containers for nodes", ours: "2.50 ms", baseline: "600 ns", ratio: "4167", budget: "≤ 4000", met: "NO"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}

	var text, markdown strings.Builder
	if err := writeText(&text, m, got[:1]); err != nil {
		t.Fatal(err)
	}
	if want := `
benchmark         phasegpu  baseline   ratio  allocs/op  B/op  budget  met
Fit/containers=1    600 ns   60.0 ns  0.10 ×          0     0  ≤ 1 µs  yes

date 2026-11-30T00:50:00Z, cpu Some CPU, processors 2
`; text.String() != want {
		t.Errorf("text:\n%s\nwant\n%s", text.String(), want)
	}
	if err := writeMarkdown(&markdown, m, got[:1]); err != nil {
		t.Fatal(err)
	}
	if want := "| benchmark | phasegpu | baseline | ratio | allocs/op | B/op | budget | met |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n" +
		"| `Fit/containers=1` | 600 ns | 60.0 ns | 0.10 × | 0 | 0 | ≤ 1 µs | yes |\n" +
		"\nMeasured with `make bench`: date 2026-11-30T00:50:00Z, cpu Some CPU, processors 2.\n"; markdown.String() != want {
		t.Errorf("Markdown:\n%s\nwant\n%s", markdown.String(), want)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"BenchmarkFit/by=somebody-2 100 5 ns/op":                                         "by=phasegpu or /by=peer",
		"BenchmarkFit/by=phasegpu-2 100 5 ns/op 7":                                       "no list of values and units",
		"BenchmarkFit/by=phasegpu-2 100 five ns/op":                                      "invalid syntax",
		"pkg: a\nBenchmarkFit/by=peer 1 5 ns/op\npkg: b\nBenchmarkFit/by=peer 1 5 ns/op": "in a and in b",
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", text, err, says)
		}
	}
}

func TestLimitsRefuse(t *testing.T) {
	for text, says := range map[string]string{
		"Fit":                  "want",
		"Fit many":             "many",
		"Fit 0 ≤ 1 parsec":     "parsec",
		"Fit 0 < 1 µs":         "≤ value unit",
		"Fit 0 ≤ x µs":         "invalid syntax",
		"Fit 0 ≤ 1 µs really":  "≤ value unit",
		"Fit 0\nFit 1":         "line 2",
		"Fit / Rate ≤ 1":       "title",
		"a: Fit / Rate ≤ much": "invalid syntax",
	} {
		if _, err := parseLimits(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", text, err, says)
		}
	}
}

// The limits themselves can be read, and no budget is there that the design does not have.
func TestBudgetsAreTheDesigns(t *testing.T) {
	text, err := os.ReadFile("limits.txt")
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLimits(string(text))
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, speed, _ := strings.Cut(string(design), "\n## 9. Speed\n")
	speed, _, _ = strings.Cut(speed, "\n## ")
	if len(l.names) == 0 || len(l.budgets) == 0 {
		t.Error("nothing is limited")
	}
	for name, b := range l.budgets {
		if !strings.Contains(speed, b.text) {
			t.Errorf("%s: %q is not in section 9 of docs/design.md", name, b.text)
		}
	}
}

// The gate fails for one allocation more, one less, and a benchmark that is not there.
func TestWrong(t *testing.T) {
	for limit, want := range map[string]string{
		"Filter/nodes=1000 1233": "Filter/nodes=1000: 1234 allocations per operation, want 1233",
		"Filter/nodes=1000 1234": "",
		"Filter/nodes=1000 1235": "Filter/nodes=1000: 1234 allocations per operation, want 1235",
		"Filter/nodes=1000 -":    "",
		"Fit/containers=1 0":     "",
		"Scrape/nodes=5000 1":    "Scrape/nodes=5000: there is no such benchmark",
		"Gone 1":                 "Gone: there is no such benchmark",
	} {
		l, err := parseLimits(limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.wrong(measured(t)), "\n"); got != want {
			t.Errorf("%s: %q, want %q", limit, got, want)
		}
	}
}

// Benchmarks are found, built, run by exact name, and their allocations counted.
func TestGate(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module example.com/x\n\ngo 1.26.0\n",
		"x.go":            "package x\n",
		"e2e/e.go":        "package e2e\n",
		"e2e/e_test.go":   "package e2e\n\nfunc BenchmarkNo() { it does not build }\n",
		"quiet/q_test.go": "package quiet\n\nfunc neither() { does this }\n",
		"a/a_test.go": `package a

import "testing"

var kept [2]*[64]int

func BenchmarkA(b *testing.B) {
	for _, name := range []string{"n=1", "n=10"} {
		b.Run(name+"/by=phasegpu", func(b *testing.B) {
			if name == "n=10" {
				b.Fatal("not asked for")
			}
			for b.Loop() {
				kept[0], kept[1] = new([64]int), new([64]int)
			}
		})
	}
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	for limit, want := range map[string]string{
		"A/n=1 2": "1 benchmarks allocate",
		"A/n=1 1": "A/n=1: 2 allocations per operation, want 1",
	} {
		l, err := parseLimits(limit)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = checkAllocations(l, &out)
		if (err == nil) != (limit == "A/n=1 2") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, says %q, want %q", limit, err, out.String(), want)
		}
	}
}
