// Command bench runs the benchmarks of all modules but e2e, keeps their output in the format that benchstat reads,
// and prints one table: ours beside the baseline of the same run, allocations, and the budgets of limits.txt.
//
//	go run ./hack/bench                                   all, with progress on stderr
//	go run ./hack/bench -bench 'Filter' -benchtime 100x   some, quickly
//	go run ./hack/bench -read bin/bench/X.txt -markdown   the table of a run that was kept
//	go run ./hack/bench -gate                             fail when allocations are not those of limits.txt
//
// The gate looks at allocations only, on one processor and without garbage collection: then they are exact. Times
// are not exact on any machine, so nothing fails for them.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const limitsFile = "hack/bench/limits.txt"

func main() {
	var o options
	flag.StringVar(&o.bench, "bench", ".", "which benchmarks, as for go test")
	flag.StringVar(&o.benchtime, "benchtime", "1s", "how long each runs, as for go test")
	flag.StringVar(&o.count, "count", "1", "how often each runs; the table has the median")
	flag.StringVar(&o.read, "read", "", "read a run that was kept instead of running")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flag.BoolVar(&o.gate, "gate", false, "check allocations, print no table")
	flag.Parse()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	bench, benchtime, count string
	read                    string
	markdown, gate          bool
}

func run(o options, out io.Writer) error {
	text, err := os.ReadFile(limitsFile)
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	limits, err := parseLimits(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", limitsFile, err)
	}
	if o.gate {
		return checkAllocations(limits, out)
	}
	path := o.read
	var failed error
	if path == "" {
		path = filepath.Join("bin", "bench", time.Now().UTC().Format("2006-01-02T15-04-05")+".txt")
		failed = runAll(o, path)
	}
	kept, err := os.Open(path)
	if err != nil {
		return err
	}
	defer kept.Close()
	m, err := parse(kept)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	write := writeText
	if o.markdown {
		write = writeMarkdown
	}
	if err := write(out, m, rows(m, limits)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "for benchstat:", path)
	return failed
}
