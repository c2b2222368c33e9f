package bench_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/e2e/bench"
)

// Every mode is measured, on a cluster so small that the numbers mean nothing: each pod is bound once, by whom the
// mode says, and init containers finish when they should.
func TestRun(t *testing.T) {
	profiles := t.TempDir()
	o := bench.Options{Nodes: 8, GPUs: 8, Pods: 20, Rounds: 1, Rate: 20, Steady: time.Second, Inits: 20,
		Profiles: profiles, Progress: t.Output()}
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range bench.Modes() {
		if len(r.Bursts[mode]) != 1 {
			t.Fatalf("%s: %d bursts", mode, len(r.Bursts[mode]))
		}
		b, s := r.Bursts[mode][0], r.Steady[mode]
		if len(b.Bound) != o.Pods || b.Bound[0] != 0 || !(b.PerSecond() > 0) || math.IsInf(b.PerSecond(), 0) {
			t.Errorf("%s: burst bound at %v", mode, b.Bound)
		}
		if len(s.Waited) != 20 || s.Waited[0] < 0 || s.Waited[19] <= 0 {
			t.Errorf("%s: steady waited %v", mode, s.Waited)
		}
		if finished := s.Finished > 0; finished != mode.Inits {
			t.Errorf("%s: %v inits finish in a second", mode, s.Finished)
		}
		binder, other := "kube-scheduler", "phasegpu-extender"
		if mode.Extender {
			binder, other = other, binder
		}
		for caller, want := range map[string]float64{binder: 1, other: 0} {
			if got := b.Requests[bench.Call{Caller: caller, Verb: "create",
				Resource: "pods/binding"}]; math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %v bindings for each pod by %s, want %v", mode, got, caller, want)
			}
		}
		for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
			if b.Load.Resident[name] < 1<<20 {
				t.Errorf("%s: %s has %d bytes", mode, name, b.Load.Resident[name])
			}
		}
		if ran := b.Load.Resident["phasegpu-extender"] > 0; ran != mode.Extender {
			t.Errorf("%s: the extender ran: %v", mode, ran)
		}
	}
	files, err := os.ReadDir(profiles)
	if err != nil || len(files) < 12 {
		t.Errorf("%d profiles in %s: %v", len(files), profiles, err)
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(profiles, f.Name())); err != nil || info.Size() == 0 {
			t.Errorf("%s is empty: %v", f.Name(), err)
		}
	}
}
