package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Markdown shows results as tables.
func Markdown(m Machine, results ...*Result) string {
	var b strings.Builder
	fmt.Fprintln(&b, m)
	for _, r := range results {
		fmt.Fprintf(&b, "\n### %d nodes with %d GPUs each\n\n", r.Nodes, r.GPUs)
		r.bursts(&b)
		if len(r.Steady) > 0 {
			r.steady(&b)
		}
		r.processors(&b)
		r.requests(&b)
	}
	return b.String()
}

// table writes one; the first column is text, the others are numbers.
func table(b *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	line(append([]string{"---"}, slices.Repeat([]string{"--:"}, len(head)-1)...))
	for _, row := range rows {
		line(row)
	}
	b.WriteString("\n")
}

func (r *Result) bursts(b *strings.Builder) {
	fmt.Fprintf(b, "Burst of %d pods, median of %d rounds (least to most). ", r.Pods, r.Rounds)
	b.WriteString("The ratios are to the same without the extender.\n\n")
	var rows [][]string
	for _, mode := range Modes() {
		burst := Median(r.Bursts[mode])
		least, most := burst.PerSecond(), burst.PerSecond()
		for _, other := range r.Bursts[mode] {
			least, most = min(least, other.PerSecond()), max(most, other.PerSecond())
		}
		base := Median(r.Bursts[Mode{Inits: mode.Inits}])
		rows = append(rows, []string{
			mode.String(), fmt.Sprintf("%.0f (%.0f to %.0f)", burst.PerSecond(), least, most),
			fmt.Sprintf("%.2f", burst.PerSecond()/base.PerSecond()),
			fmt.Sprintf("%.0f", burst.RanPerSecond()), fmt.Sprintf("%.2f", burst.RanPerSecond()/base.RanPerSecond()),
			number(mode.Inits, burst.Finished),
		})
	}
	table(b, []string{"", "pods bound per second", "ratio", "until they run", "ratio", "inits finished per second"},
		rows)
}

func (r *Result) steady(b *strings.Builder) {
	fmt.Fprintf(b, "Steady: %d pods come in a second, for %v. From creation to binding:\n\n", r.Rate, r.Options.Steady)
	var rows [][]string
	for _, mode := range Modes() {
		s := r.Steady[mode]
		row := []string{mode.String()}
		for _, percent := range []float64{50, 90, 99, 100} {
			row = append(row, fmt.Sprintf("%.0f ms", float64(Quantile(s.Waited, percent))/float64(time.Millisecond)))
		}
		rows = append(rows, append(row, number(mode.Inits, s.Finished)))
	}
	table(b, []string{"", "p50", "p90", "p99", "longest", "inits finished per second"}, rows)
}

// processors shows what the processes used, of the median bursts and of the steady part.
func (r *Result) processors(b *strings.Builder) {
	b.WriteString("Processor time of each process, in ms for each pod of a burst until it runs, and resident " +
		"memory of extender and kube-scheduler after it; the extender in the steady part, in percent of one processor:\n\n")
	names := map[string]bool{}
	for _, bursts := range r.Bursts {
		for name := range Median(bursts).Load.CPU {
			names[name] = true
		}
	}
	processes := slices.Sorted(maps.Keys(names))
	head := append([]string{""}, processes...)
	head = append(head, "memory: "+extender, "memory: "+scheduler, "steady: "+extender)
	var rows [][]string
	for _, mode := range Modes() {
		burst := Median(r.Bursts[mode])
		row := []string{mode.String()}
		for _, name := range processes {
			seconds, ran := burst.Load.CPU[name]
			row = append(row, unit(ran, "%.2f", 1000*seconds/float64(len(burst.Bound))))
		}
		for _, name := range []string{extender, scheduler} {
			bytes, ran := burst.Load.Resident[name]
			row = append(row, unit(ran, "%.0f MiB", float64(bytes)/(1<<20)))
		}
		steady := r.Steady[mode].Load
		seconds, ran := steady.CPU[extender]
		rows = append(rows, append(row, unit(ran, "%.1f %%", 100*seconds/steady.Took.Seconds())))
	}
	table(b, head, rows)
}

const extender, scheduler = "phasegpu-extender", "kube-scheduler"

func (r *Result) requests(b *strings.Builder) {
	b.WriteString("Requests to the API server for each pod of a burst, from its creation until its container runs:\n\n")
	calls := map[Call]bool{}
	for _, bursts := range r.Bursts {
		for call, n := range Median(bursts).Requests {
			if n >= 0.01 {
				calls[call] = true
			}
		}
	}
	order := func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource))
	}
	head := []string{"caller: request"}
	for _, mode := range Modes() {
		head = append(head, mode.String())
	}
	var rows [][]string
	sums := make([]float64, len(Modes()))
	for _, call := range slices.SortedFunc(maps.Keys(calls), order) {
		row := []string{fmt.Sprintf("%s: %s %s", call.Caller, call.Verb, call.Resource)}
		for i, mode := range Modes() {
			n, asked := Median(r.Bursts[mode]).Requests[call]
			sums[i] += n
			row = append(row, unit(asked, "%.2f", n))
		}
		rows = append(rows, row)
	}
	total := []string{"all"}
	for _, sum := range sums {
		total = append(total, fmt.Sprintf("%.2f", sum))
	}
	table(b, head, append(rows, total))
}

func number(is bool, value float64) string { return unit(is, "%.0f", value) }

// unit formats a value, or says that there is none.
func unit(is bool, format string, value float64) string {
	if !is {
		return "–"
	}
	return fmt.Sprintf(format, value)
}
