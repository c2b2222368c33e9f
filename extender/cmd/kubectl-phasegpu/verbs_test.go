package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/top"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/why"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// withBooks are a leading extender's books, changed.
func withBooks(t *testing.T, change func(*ui.Ledger)) extenders {
	var l ui.Ledger
	if err := json.Unmarshal([]byte(books(t)), &l); err != nil {
		t.Fatal(err)
	}
	change(&l)
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return extenders{"b_1234", map[string]bool{"b": true}, map[string]string{"b": string(text)}}
}

// The extender is asked for what only it knows, and without it the rest is told all the same.
func TestWhyOnACluster(t *testing.T) {
	gate := func(waiting int, shut float64) extenders {
		return withBooks(t, func(l *ui.Ledger) {
			l.Gates = []ui.Gate{{Node: "node-1", Inside: []string{"ml/x"}, Waiting: waiting, ShutSeconds: shut}}
		})
	}
	for _, c := range []struct {
		name  string
		e     extenders
		args  []string
		code  int
		state why.State
		from  string
		says  []string // parts of the JSON
	}{
		{"no extender", extenders{}, []string{"waiting"}, 1, why.Waiting, "API server",
			[]string{"spec.schedulerName is default-scheduler", `"fits": [`,
				"how many pods wait at GPU gates is not known: the leading extender cannot be found by its Lease"}},
		{"an extender", withBooks(t, func(*ui.Ledger) {}), []string{"waiting"}, 1, why.Waiting, "extender",
			[]string{`"gates": []`}},
		{"a gate with a pod inside", gate(2, 3), []string{"waiting"}, 1, why.Waiting, "extender",
			[]string{`"waiting": 2`, `"refusals": []`}},
		{"a deep queue", gate(8, 3), []string{"waiting"}, 1, why.Waiting, "extender",
			[]string{"has too many pods waiting (inside: ml/x for 3 s; 8 waiting)"}},
		{"a gate that is shut for long", gate(0, 31), []string{"waiting"}, 1, why.Waiting, "extender",
			[]string{"kubelet does not report on a pod bound to it"}},
		{"booked already", withBooks(t, func(l *ui.Ledger) {
			l.Nodes[0].Pods = append(l.Nodes[0].Pods,
				ui.Pod{UID: "u2", Namespace: "ml", Name: "waiting", Assumed: true})
		}), []string{"waiting"}, 1, why.Waiting, "extender", []string{"has booked it on node node-1 and its Binding " +
			"is on its way"}},
		{"placed", extenders{}, []string{"running"}, 0, why.Placed, "API server", []string{"GPU gate of node node-1"}},
		{"another namespace", withBooks(t, func(*ui.Ledger) {}), []string{"other", "-n", "team"}, 1, why.Waiting,
			"extender", []string{`"quotas": []`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"why", "--extender-namespace", "gpus"}, access(t, c.e.serve(t))...)
			got, stdout, stderr, code := parsed[why.Report](t, append(args, c.args...)...)
			if stderr != "" {
				t.Fatal(stderr)
			}
			if code != c.code || got.State != c.state || got.GatesFrom != c.from {
				t.Errorf("exit code %d, %s, gates from %s; want %d, %s, %s", code, got.State, got.GatesFrom, c.code,
					c.state, c.from)
			}
			for _, part := range c.says {
				if !strings.Contains(stdout, part) {
					t.Errorf("it does not say %q:\n%s", part, stdout)
				}
			}
		})
	}
}

// Pods that are nominated have no node, and are asked for all the same.
func TestKeptRoomOnACluster(t *testing.T) {
	kept := `- kind: Pod
  metadata: {name: nominated, namespace: team, uid: u5}
  spec: {priority: 10, containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 14000}}}]}
  status: {phase: Pending, nominatedNodeName: node-1}
`
	access := access(t, extenders{}.serve(t, kept))
	args := append([]string{"why", "waiting", "--extender-namespace", "gpus"}, access...)
	got, stdout, _, _ := parsed[why.Report](t, args...)
	if len(got.Refusals) != 1 {
		t.Fatalf("it fits: %s", stdout)
	}
	var names []string
	for _, h := range got.Refusals[0].Nearest[0].Containers[0].Devices[0].Holders {
		names = append(names, fmt.Sprint(h.Name, " ", h.Holds.MemoryMiB, " ", h.Kept))
	}
	if diff := cmp.Diff([]string{"nominated 14000 true", "running 10000 false"}, names); diff != "" {
		t.Errorf("holders: -want +got\n%s", diff)
	}
	small := `{apiVersion: v1, kind: Pod, metadata: {name: s}, spec: {containers: [{name: a, image: x,
		resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 2000}}}]}}`
	if stdout, _, code := command(t, small, append([]string{"fit", "-f", "-"}, access...)...); code != exitNegative {
		t.Errorf("fit: exit code %d, %s", code, stdout)
	}
}

// A pod that is not there: the error says where to look.
func TestUnknownPods(t *testing.T) {
	access := access(t, api(t))
	for _, verb := range []string{"why", "timeline"} {
		check(t, append([]string{verb, "gone"}, access...), exitBadInput, "",
			`error: pod ml/gone: pods "gone" not found `+
				`(-n gives another namespace; kubectl get pods -A --field-selector metadata.name=gone finds it)`)
	}
}

func TestTopOnACluster(t *testing.T) {
	got, _, stderr, code := parsed[top.Report](t, append([]string{"top", "namespaces"}, access(t, api(t))...)...)
	if code != exitFine || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	held := report.Amount{Slots: 1, MemoryMiB: 10000}
	want := []top.Namespace{
		{Name: "ml", Family: "NVIDIA", Pods: 1, Waiting: 1, Reserved: held, Steady: held,
			Limits: []top.Limit{{Quota: "gpus", Resource: "limits.nvidia.com/gpumem", Used: 10000, Max: 20000}}},
		{Name: "team", Family: "NVIDIA", Waiting: 1, Limits: []top.Limit{}},
	}
	if diff := cmp.Diff(want, got.Namespaces, cmpopts.IgnoreUnexported(top.Limit{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// frames ends the watch after some frames.
type frames struct {
	bytes.Buffer
	left int
	end  func()
}

func (f *frames) Write(p []byte) (int, error) {
	if f.left--; f.left == 0 {
		f.end()
	}
	return f.Buffer.Write(p)
}

// --watch lists anew for each frame, and ends well when it is interrupted.
func TestTopWatches(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		output   string
		want     string // how a frame begins
	}{
		"terminal": {true, "text", "\x1b[H2026-01-01 12:00:00\x1b[K\n"},
		"file":     {false, "text", "2026-01-01 12:00:00\n"},
		"json":     {true, "json", "{\n  \"nodes\""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			out, stderr := &frames{left: 3, end: cancel}, bytes.Buffer{}
			args := append([]string{"top", "--watch", "--interval", "1ms", "-o", c.output}, access(t, api(t))...)
			s := plain("", out, &stderr)
			s.terminal = c.terminal
			code := run(ctx, args, s)
			if n := strings.Count(out.String(), c.want); code != exitFine || stderr.Len() > 0 || n != 3 {
				t.Errorf("exit code %d, %d frames, stderr %q\n%s", code, n, stderr.String(), out.String())
			}
			if strings.Contains(out.String(), "\x1b[2J") != (c.terminal && c.output == "text") {
				t.Errorf("the screen is cleared, or not: %q", out.String())
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	access := access(t, api(t))
	for _, c := range []struct {
		args []string // the last is to be completed
		want string   // the first words of the lines
	}{
		{[]string{"w"}, "why"},
		{[]string{"why", ""}, "running waiting"},
		{[]string{"why", "wai"}, "waiting"},
		{[]string{"why", "waiting", ""}, ""},
		{[]string{"why", "-n", "team", ""}, "other"},
		{[]string{"why", "-n", ""}, "ml team"},
		{[]string{"why", "--extender-namespace", "t"}, "team"},
		{[]string{"why", "--release", ""}, "per-init all-inits hold"},
		{[]string{"timeline", "r"}, "running"},
		{[]string{"explain", "running", ""}, "waiting"},
		{[]string{"refit", "running", ""}, "a"},
		{[]string{"top", ""}, "nodes devices namespaces"},
		{[]string{"top", "devices", ""}, "node-1"},
		{[]string{"top", "namespaces", "m"}, "ml"},
		{[]string{"top", "--sort-by", "re"}, "reserved releasable"},
		{[]string{"fit", "-o", ""}, "text json"},
		{[]string{"why", "--context", ""}, "none test"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			last := len(c.args) - 1
			args := []string{"__complete"}
			if last > 0 {
				args = append(append(args, c.args[0]), access...)
			}
			args = append(args, c.args[min(last, 1):]...)
			stdout, _, code := command(t, "", args...)
			var words []string
			for line := range strings.Lines(stdout) {
				if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" && word[0] != ':' {
					words = append(words, word)
				}
			}
			if got := strings.Join(words, " "); code != exitFine || got != c.want {
				t.Errorf("exit code %d, completed to %q, want %q\n%s", code, got, c.want, stdout)
			}
		})
	}
}

// kubectl asks for completion by calling the plugin under another name.
func TestCompleter(t *testing.T) {
	for name, want := range map[string][]string{
		"/usr/bin/kubectl_complete-phasegpu": {"__complete", "why", ""},
		"kubectl-phasegpu":                   {"why", ""},
	} {
		if diff := cmp.Diff(want, arguments([]string{name, "why", ""})); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
