package bench

import (
	"strings"
	"testing"
	"time"
)

// made is a result as if it had been measured: every mode takes a quarter longer than the one before.
func made() *Result {
	r := &Result{
		Options: Options{Nodes: 1000, GPUs: 8, Pods: 5, Rounds: 3, Rate: 40, Steady: 20 * time.Second},
		Bursts:  map[Mode][]Burst{}, Steady: map[Mode]Steady{},
	}
	for i, mode := range Modes() {
		for round := range 3 {
			step := time.Duration(4+i)*10*time.Millisecond + time.Duration(round)*time.Millisecond
			burst := Burst{
				Bound: []time.Duration{0, step, 2 * step, 3 * step, 4 * step},
				Ran:   5 * step,
				Load: Load{CPU: map[string]float64{"etcd": 0.25, scheduler: 0.5},
					Resident: map[string]int64{"etcd": 1, scheduler: 100 << 20}},
				Requests: map[Call]float64{
					{"client", "create", "pods"}: 1,
					{map[bool]string{false: scheduler, true: extender}[mode.Extender], "create", "pods/binding"}: 1,
					{"client", "get", "rarely"}: 0.001,
				},
			}
			if mode.Extender {
				burst.Load.CPU[extender], burst.Load.Resident[extender] = 0.124, 40<<20
			}
			if mode.Inits {
				burst.Finished = 49.6
			}
			r.Bursts[mode] = append(r.Bursts[mode], burst)
		}
		s := Steady{Load: Load{CPU: map[string]float64{extender: 0.62}, Took: 20 * time.Second}}
		if !mode.Extender {
			delete(s.Load.CPU, extender)
		}
		for ms := range 200 {
			s.Waited = append(s.Waited, time.Duration((ms+1)*(i+1))*time.Millisecond)
		}
		r.Steady[mode] = s
	}
	return r
}

func TestMarkdown(t *testing.T) {
	m := Machine{
		Command: "make bench-e2e", Processor: "a chip", Kernel: "Linux 6", Commit: "abc",
		Processors: 2, MemoryMiB: 8192,
		Date: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC),
	}
	got := Markdown(m, made())
	for _, want := range []string{
		"Measured with `make bench-e2e` on 2026-11-30 01:02 UTC at commit abc: " +
			"2 processors (a chip), 8192 MiB of memory, Linux 6, go1.",
		"### 1000 nodes with 8 GPUs each",
		"| alone | 24 (24 to 25) | 1.00 | 24 | 1.00 | – |\n" +
			"| alone, counting | 20 (19 to 20) | 0.80 | 20 | 0.80 | – |\n| extender | 16 (16 to 17) | 0.67 | 16 | 0.67 | – |",
		"| extender, inits finish | 12 (12 to 12) | 0.88 | 12 | 0.88 | 50 |",
		"| alone | 100 ms | 180 ms | 198 ms | 200 ms | – |",
		"|  | etcd | kube-scheduler | phasegpu-extender | " +
			"memory: phasegpu-extender | memory: kube-scheduler | " +
			"steady: phasegpu-extender |",
		"| alone, counting | 50.00 | 100.00 | – | – | 100 MiB | – |\n" +
			"| extender | 50.00 | 100.00 | 24.80 | 40 MiB | 100 MiB | 3.1 % |",
		"| client: create pods | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |\n" +
			"| kube-scheduler: create pods/binding | 1.00 | 1.00 | – | 1.00 | – |",
		"| all | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(got, "rarely") {
		t.Error("a request that one pod in a thousand made is shown")
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestQuantile(t *testing.T) {
	all := []time.Duration{1, 2, 3, 4}
	for percent, want := range map[float64]time.Duration{0: 1, 25: 1, 50: 2, 51: 3, 99: 4, 100: 4} {
		if got := Quantile(all, percent); got != want {
			t.Errorf("%v %%: %v, want %v", percent, got, want)
		}
	}
	if got := Quantile(nil, 50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
