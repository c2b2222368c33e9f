package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// measurement is a run of benchmarks.
type measurement struct {
	facts map[string]string // how it was made: lines "key: value"
	names []string          // in the order of the run, without "/by=…"
	ours  map[string]values
	peer  map[string]values
}

// values are a benchmark's by unit: "ns/op", "allocs/op", …; one for each time it ran.
type values map[string][]float64

// median returns the median for a unit; ok is false when the benchmark does not report it.
func (v values) median(unit string) (m float64, ok bool) {
	all := slices.Sorted(slices.Values(v[unit]))
	if len(all) == 0 {
		return 0, false
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// parse reads the output of benchmarks, see golang.org/design/14313-benchmark-format. A benchmark is called
// "name/by=phasegpu" or "name/by=peer"; "name" has no baseline.
func parse(in io.Reader) (*measurement, error) {
	m := &measurement{facts: map[string]string{}, ours: map[string]values{}, peer: map[string]values{}}
	packages := map[string]string{} // by name
	processors := regexp.MustCompile(`-\d+$`)
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		line := scanner.Text()
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.Contains(key, " ") {
			m.facts[key] = strings.TrimSpace(value)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		full := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		name, by, _ := strings.Cut(full, "/by=")
		side := map[string]map[string]values{"": m.ours, "phasegpu": m.ours, "peer": m.peer}[by]
		if side == nil {
			return nil, fmt.Errorf("benchmark %s: a name ends in /by=phasegpu or /by=peer, so that ours can be set beside the baseline", full)
		}
		if other, known := packages[name]; !known {
			m.names = append(m.names, name)
			packages[name] = m.facts["pkg"]
		} else if other != m.facts["pkg"] {
			return nil, fmt.Errorf("benchmark %s is in %s and in %s: give one of them another name", name, other, m.facts["pkg"])
		}
		if side[name] == nil {
			side[name] = values{}
		}
		if err := side[name].read(fields[2:]); err != nil {
			return nil, fmt.Errorf("benchmark %s: %w", full, err)
		}
	}
	return m, scanner.Err()
}

// read takes values and units in turn.
func (v values) read(fields []string) error {
	if len(fields)%2 != 0 {
		return fmt.Errorf("%q is no list of values and units", strings.Join(fields, " "))
	}
	for i := 0; i < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		v[fields[i+1]] = append(v[fields[i+1]], value)
	}
	return nil
}
