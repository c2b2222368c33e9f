package phase

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
)

// at is a moment in seconds; 0 is a time that the status leaves out.
func at(second int64) time.Time {
	if second == 0 {
		return time.Time{}
	}
	return time.Unix(1767225600+second, 0)
}

var (
	waiting = State{}
	madeUp  = State{Terminated: true} // exit code 0 without times
)

func running(since int64) State { return State{Running: true, StartedAt: at(since)} }

func exited(code int32, started, finished int64) State {
	return State{Terminated: true, ExitCode: code, StartedAt: at(started), FinishedAt: at(finished)}
}

func ready(since int64) Status { return Status{Sandbox: SandboxReady, SandboxReadyAt: at(since)} }

// states completes a status with the states of the containers by position.
func (s Status) states(states ...State) Status {
	s.State = func(position int) State { return states[position] }
	return s
}

// The rules of design section 1, "Which phases remain", and what real kubelets report.
func TestProgress(t *testing.T) {
	two := Pod{i, i, a}
	one := Pod{i, a}
	noSandbox := Status{Sandbox: SandboxNotReady}
	restarting := Status{Restarting: true, Sandbox: SandboxReady, SandboxReadyAt: at(100)}
	deleting := func(s Status) Status { s.Deleting = true; return s }
	terminal := func(s Status) Status { s.Terminal = true; return s }
	for _, c := range []struct {
		name   string
		pod    Pod
		status Status
		inits  int
		ended  bool
	}{
		// Rule 1. What is complete is read all the same, for those who print it.
		{"terminal", one, terminal(ready(100)).states(exited(0, 101, 102), exited(0, 103, 104)), 1, true},
		{"failed in its second init", two, terminal(ready(100)).states(exited(0, 101, 102), exited(1, 103, 104),
			waiting), 1, true},
		{"terminal without a sandbox", two, terminal(noSandbox).states(exited(0, 101, 102), exited(0, 103, 104),
			exited(0, 105, 106)), 0, true},

		// Rule 2.
		{"no sandbox", one, noSandbox.states(exited(0, 101, 102), waiting), 0, false},
		{"no sandbox beats a running app", one, noSandbox.states(exited(0, 101, 102), running(103)), 0, false},
		{"restarting beats a running app", one, restarting.states(exited(0, 101, 102), running(103)), 0, false},
		{"restarting, sandbox unknown", one, Status{Restarting: true}.states(exited(0, 101, 102), waiting), 0, false},
		{"deleted: no new cycle without a sandbox", two, deleting(noSandbox).states(exited(0, 101, 102),
			exited(0, 103, 104), exited(0, 105, 106)), 2, false},
		{"deleted: no new cycle by restarting", one, deleting(restarting).states(exited(0, 101, 102), waiting), 1,
			false},
		{"deleted: a later sandbox takes nothing back", one, deleting(ready(500)).states(exited(0, 101, 102),
			running(103)), 1, false},

		// Rule 3.
		{"app running", two, ready(100).states(exited(0, 101, 102), exited(0, 103, 104), running(105)), 2, false},
		{"app running since the second of the sandbox", one, ready(100).states(waiting, running(100)), 1, false},
		{"app of a dead sandbox", one, ready(200).states(exited(0, 101, 102), running(103)), 0, false},
		{"app without start time proves nothing", one, ready(100).states(waiting, running(0)), 0, false},
		{"sandbox unknown: app without start time", one, Status{}.states(waiting, running(0)), 1, false},
		{"sandbox ready since nobody knows: app without start time", one, ready(0).states(waiting, running(0)), 1,
			false},
		{"one of two apps", Pod{i, a, a}, ready(100).states(waiting, waiting, running(105)), 1, false},
		{"kubelet skipped the second init", two, ready(300).states(exited(0, 301, 310), exited(0, 111, 120),
			running(311)), 2, false},
		{"app terminated proves nothing", one, ready(100).states(waiting, exited(0, 101, 102)), 0, false},
		{"a running sidecar proves nothing", Pod{i, s, a}, ready(100).states(waiting, running(101), waiting), 0, false},

		// Rule 4.
		{"nothing yet", two, ready(100).states(waiting, waiting, waiting), 0, false},
		{"first running", two, ready(100).states(running(101), waiting, waiting), 0, false},
		{"first complete", two, ready(100).states(exited(0, 101, 102), running(103), waiting), 1, false},
		{"both complete, app not yet", two, ready(100).states(exited(0, 101, 102), exited(0, 103, 104), waiting), 2,
			false},
		{"whole seconds: the next starts as the last ends", two, ready(100).states(exited(0, 100, 100),
			exited(0, 100, 100), waiting), 2, false},
		{"exit 1 holds its phase", two, ready(100).states(exited(1, 101, 102), waiting, waiting), 0, false},
		{"exit 1 of the second", two, ready(100).states(exited(0, 101, 102), exited(1, 103, 104), waiting), 1, false},
		{"finished before this sandbox", one, ready(200).states(exited(0, 101, 199), waiting), 0, false},
		{"finished in the second of the sandbox", one, ready(200).states(exited(0, 101, 200), waiting), 1, false},
		{"started before a sandbox that was reported late", one, ready(105).states(exited(0, 101, 110), waiting), 1,
			false},
		{"started before the previous finished: an older cycle's", two,
			ready(100).states(exited(0, 301, 310), exited(0, 111, 120), waiting), 1, false},
		{"the same when nothing is known of the sandbox", two, Status{}.states(exited(0, 301, 310),
			exited(0, 111, 120), waiting), 1, false},
		{"the first that is not complete ends the count", two, ready(100).states(running(101), exited(0, 103, 104),
			waiting), 0, false},
		{"made up by kubelet", one, ready(100).states(madeUp, waiting), 0, false},
		{"made up by kubelet, app running", one, ready(100).states(madeUp, running(101)), 1, false},
		{"no start time", one, ready(100).states(exited(0, 0, 102), waiting), 0, false},
		{"no finish time", one, Status{}.states(exited(0, 101, 0), waiting), 0, false},
		{"sidecars between are not counted", Pod{s, i, s, i, a}, ready(100).states(running(101), exited(0, 102, 103),
			running(103), exited(0, 104, 105), waiting), 2, false},
		{"sidecars between need no state", Pod{s, i, s, i, a}, ready(100).states(waiting, exited(0, 102, 103),
			exited(1, 1, 2), exited(0, 104, 105), waiting), 2, false},
		{"all inits are sidecars", Pod{s, a}, ready(100).states(waiting, waiting), 0, false},
		{"no container", Pod{}, ready(100).states(), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Progress{Inits: c.inits, Terminal: c.ended}
			if got := c.pod.Progress(c.status); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// story is what a status said, one look after the other, and what is reserved after each.
type story struct {
	name    string
	pod     Pod
	memory  []int64
	release Release
	looks   []look
}

type look struct {
	what   string
	status Status
	want   int64 // MiB
}

// Each look is computed from its status alone, so each also stands for a process that was restarted
// just before it.
func TestStories(t *testing.T) {
	pod := Pod{i, i, a}
	ended := func(s Status) Status { s.Terminal = true; return s }
	gone := Status{Sandbox: SandboxNotReady}
	restarting := Status{Restarting: true, Sandbox: SandboxReady, SandboxReadyAt: at(100)}
	old1, old2 := exited(0, 101, 110), exited(0, 111, 120)
	rerun := func(during, after int64) []look {
		return []look{
			{"steady", ready(100).states(old1, old2, running(121)), after},
			{"sandbox gone, the app still shown running", gone.states(old1, old2, running(121)), 20000},
			{"a new sandbox, nothing else reported yet", ready(300).states(old1, old2, running(121)), 20000},
			{"first init runs again", ready(300).states(running(301), old2, exited(137, 121, 299)), 20000},
			{"first complete, second shows its old record", ready(300).states(exited(0, 301, 310), old2,
				exited(137, 121, 299)), during},
			{"second runs", ready(300).states(exited(0, 301, 310), running(311), exited(137, 121, 299)), during},
			{"second complete", ready(300).states(exited(0, 301, 310), exited(0, 311, 320), exited(137, 121, 299)),
				after},
			{"app runs", ready(300).states(exited(0, 301, 310), exited(0, 311, 320), running(321)), after},
			{"succeeded", ended(ready(300)).states(exited(0, 301, 310), exited(0, 311, 320), exited(0, 321, 330)), 0},
		}
	}
	for _, story := range []story{
		{"each init in its turn, then the app", pod, []int64{20000, 8000, 5000}, PerInit, []look{
			{"bound, no status", Status{}.states(waiting, waiting, waiting), 20000},
			{"first runs", ready(100).states(running(101), waiting, waiting), 20000},
			{"first complete", ready(100).states(exited(0, 101, 102), waiting, waiting), 8000},
			{"second runs", ready(100).states(exited(0, 101, 102), running(102), waiting), 8000},
			{"second complete", ready(100).states(exited(0, 101, 102), exited(0, 102, 103), waiting), 5000},
			{"app runs", ready(100).states(exited(0, 101, 102), exited(0, 102, 103), running(104)), 5000},
			{"app crashed", ready(100).states(exited(0, 101, 102), exited(0, 102, 103), exited(1, 104, 105)), 5000},
			{"app backs off", ready(100).states(exited(0, 101, 102), exited(0, 102, 103), waiting), 5000},
			{"failed", ended(ready(100)).states(exited(0, 101, 102), exited(0, 102, 103), exited(1, 106, 107)), 0},
		}},
		{"sandbox recreated, per-init", pod, []int64{8000, 20000, 5000}, PerInit, rerun(20000, 5000)},
		{"sandbox recreated, all-inits", pod, []int64{20000, 8000, 5000}, AllInits, rerun(20000, 5000)},
		{"sandbox recreated, hold", pod, []int64{20000, 8000, 5000}, Hold, rerun(20000, 20000)},
		{"the larger init first", pod, []int64{20000, 8000, 5000}, PerInit, rerun(8000, 5000)},
		{"restarted in place", pod, []int64{8000, 20000, 5000}, PerInit, []look{
			{"steady", ready(100).states(old1, old2, running(121)), 5000},
			{"restarting", restarting.states(old1, old2, running(121)), 20000},
			{"all wait", restarting.states(waiting, waiting, waiting), 20000},
			{"waiting, the condition is gone", ready(100).states(waiting, waiting, waiting), 20000},
			{"first again", ready(100).states(exited(0, 301, 310), waiting, waiting), 20000},
			{"steady again", ready(100).states(exited(0, 301, 310), exited(0, 311, 320), running(321)), 5000},
		}},
		{"the init gives up", Pod{i, a}, []int64{20000, 5000}, PerInit, []look{
			{"exit 1, retried", ready(100).states(exited(1, 101, 102), waiting), 20000},
			{"back-off", ready(100).states(waiting, waiting), 20000},
			{"exit 1 again", ready(100).states(exited(1, 121, 122), waiting), 20000},
			{"pod failed", ended(ready(100)).states(exited(1, 121, 122), waiting), 0},
		}},
		{"a sidecar flaps", Pod{s, i, a}, []int64{2000, 20000, 10000}, PerInit, []look{
			{"before the init", ready(100).states(running(101), waiting, waiting), 22000},
			{"flaps during the init", ready(100).states(exited(0, 101, 102), running(102), waiting), 22000},
			{"steady", ready(100).states(running(101), exited(0, 102, 103), running(104)), 12000},
			{"exit 0", ready(100).states(exited(0, 101, 105), exited(0, 102, 103), running(104)), 12000},
			{"back-off", ready(100).states(waiting, exited(0, 102, 103), running(104)), 12000},
			{"exit 1", ready(100).states(exited(1, 106, 107), exited(0, 102, 103), running(104)), 12000},
			{"runs again", ready(100).states(running(108), exited(0, 102, 103), running(104)), 12000},
			{"app and sidecar both down", ready(100).states(exited(0, 108, 109), exited(0, 102, 103),
				exited(1, 104, 109)), 12000},
		}},
		{"issue scenario 8, all-inits", pod, []int64{1024, 512, 256}, AllInits, []look{
			{"second in a retry loop", ready(100).states(exited(0, 101, 102), exited(1, 103, 104), waiting), 1024},
			{"both complete", ready(100).states(exited(0, 101, 102), exited(0, 105, 106), waiting), 256},
		}},
		{"Pending to Succeeded without ever Running", Pod{i, a}, []int64{20000, 10000}, AllInits, []look{
			{"init done", ready(100).states(exited(0, 101, 102), waiting), 10000},
			{"succeeded", ended(ready(100)).states(exited(0, 101, 102), exited(0, 103, 104)), 0},
		}},
		{"hold, and deleted", Pod{i, a}, []int64{20000, 10000}, Hold, []look{
			{"steady", ready(100).states(exited(0, 101, 102), running(103)), 20000},
			{"terminal", ended(ready(100)).states(exited(0, 101, 102), running(103)), 0},
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			for _, look := range story.looks {
				first := story.pod.First(story.pod.Progress(look.status), story.release)
				got, err := story.pod.Fold(first, func(position int) device.Amount {
					return device.Amount{MemoryMiB: story.memory[position]}
				})
				if err != nil || got.MemoryMiB != look.want {
					t.Errorf("%s: %d MiB reserved, %v, want %d", look.what, got.MemoryMiB, err, look.want)
				}
			}
		})
	}
}

func TestFirst(t *testing.T) {
	for _, c := range []struct {
		pod      Pod
		release  Release
		progress Progress
		want     int
	}{
		{Pod{i, i, a}, PerInit, Progress{Inits: 0}, 0},
		{Pod{i, i, a}, PerInit, Progress{Inits: 1}, 1},
		{Pod{i, i, a}, PerInit, Progress{Inits: 2}, 2},
		{Pod{i, i, a}, AllInits, Progress{Inits: 1}, 0},
		{Pod{i, i, a}, AllInits, Progress{Inits: 2}, 2},
		{Pod{i, i, a}, Hold, Progress{Inits: 2}, 0},
		{Pod{i, i, a}, PerInit, Progress{Inits: 2, Terminal: true}, None},
		{Pod{i, i, a}, AllInits, Progress{Terminal: true}, None},
		{Pod{i, i, a}, Hold, Progress{Inits: 1, Terminal: true}, None},
		{Pod{s, a}, PerInit, Progress{}, 0}, // which is the steady state
		{Pod{s, a}, AllInits, Progress{}, 0},
	} {
		if got := c.pod.First(c.progress, c.release); got != c.want {
			t.Errorf("%v %v %+v: phase %d, want %d", c.pod, c.release, c.progress, got, c.want)
		}
	}
}

// A restatement of the rules that asks for each count of completed init containers whether the status
// supports it, instead of walking to it.
func naiveProgress(p Pod, s Status) Progress {
	var states []State // of the init containers
	appRuns := false
	sandboxKnown := s.Sandbox == SandboxReady && !s.Deleting && !s.SandboxReadyAt.IsZero()
	for position, class := range p {
		state := s.State(position)
		switch {
		case class == Init:
			states = append(states, state)
		case class == App && state.Running:
			started := state.StartedAt
			appRuns = appRuns || !sandboxKnown || !started.IsZero() && started.Compare(s.SandboxReadyAt) >= 0
		}
	}
	newCycle := !s.Deleting && (s.Restarting || s.Sandbox == SandboxNotReady)
	supported := func(n int) bool {
		for k := range n {
			x := states[k]
			if !x.Terminated || x.ExitCode != 0 || x.StartedAt.IsZero() || x.FinishedAt.IsZero() {
				return false
			}
			if sandboxKnown && x.FinishedAt.Compare(s.SandboxReadyAt) < 0 {
				return false
			}
			if k > 0 && x.StartedAt.Compare(states[k-1].FinishedAt) < 0 {
				return false
			}
		}
		return true
	}
	result := Progress{Terminal: s.Terminal}
	switch {
	case newCycle:
	case appRuns:
		result.Inits = len(states)
	default:
		for n := range len(states) + 1 {
			if supported(n) {
				result.Inits = n
			}
		}
	}
	return result
}

func TestProgressProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	reached := map[Progress]int{}
	for range 200000 {
		p := randomPod(r, 3)
		status := Status{
			Terminal: r.IntN(8) == 0, Deleting: r.IntN(6) == 0, Restarting: r.IntN(10) == 0,
			Sandbox: []Sandbox{SandboxUnknown, SandboxNotReady, SandboxReady, SandboxReady,
				SandboxReady}[r.IntN(5)], SandboxReadyAt: at(r.Int64N(4)),
		}
		states := make([]State, len(p))
		for k := range states {
			// Mostly in order, so that deep progress is reached, and mostly terminated.
			started := max(0, int64(2*k)+r.Int64N(5)-1)
			switch r.IntN(6) {
			case 0:
			case 1:
				states[k] = running(started)
			default:
				states[k] = exited(int32(r.IntN(5)/4), started, max(0, started+r.Int64N(4)-1))
			}
		}
		status = status.states(states...)
		got, want := p.Progress(status), naiveProgress(p, status)
		if got != want {
			t.Fatalf("seed %d: %v %+v %+v: got %+v, want %+v", seed, p, status, states, got, want)
		}
		reached[got]++
		for _, release := range []Release{PerInit, AllInits, Hold} {
			first := p.First(got, release)
			if first != None && (first < 0 || first > p.Steady()) || (first == None) != status.Terminal {
				t.Fatalf("seed %d: %v %+v %v: phase %d", seed, p, got, release, first)
			}
		}
	}
	for _, ended := range []bool{false, true} {
		for inits := range 4 {
			if n := reached[Progress{Inits: inits, Terminal: ended}]; n < 100 {
				t.Errorf("seed %d: %d init containers, terminal %v was reached only %d times", seed, inits, ended, n)
			}
		}
	}
}

func TestParseRelease(t *testing.T) {
	for _, release := range []Release{PerInit, AllInits, Hold} {
		if got, err := ParseRelease(" " + release.String() + "\n"); err != nil || got != release {
			t.Errorf("%v: %v, %v", release, got, err)
		}
	}
	for _, name := range []string{"", "Hold", "per init", "all-inits,hold"} {
		if _, err := ParseRelease(name); err == nil || !strings.Contains(err.Error(),
			"use per-init, all-inits or hold") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add("per-init")
	f.Fuzz(func(t *testing.T, name string) {
		r, err := ParseRelease(name)
		if err == nil && r.String() != strings.TrimSpace(name) {
			t.Errorf("%q read as %v", name, r)
		}
	})
}
