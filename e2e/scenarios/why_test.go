package scenarios_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// report is what `kubectl phasegpu why`, `top devices` and `timeline` say as JSON, as far as the test looks.
type report struct {
	State    string   `json:"state"`
	Fits     []string `json:"fits"`
	Remedies []struct {
		Kind   string   `json:"kind"`
		Nodes  []string `json:"nodes"`
		Events []struct {
			Namespace, Pod, Container string
			Releases                  []struct {
				UUID      string `json:"uuid"`
				MemoryMiB int64  `json:"memoryMiB"`
			} `json:"releases"`
		} `json:"events"`
	} `json:"remedies"`
	Devices []struct {
		UUID                         string `json:"uuid"`
		Reserved, Steady, Releasable struct {
			MemoryMiB int64 `json:"memoryMiB"`
		}
	} `json:"devices"`
	Releases []struct {
		After string `json:"after"`
		Done  bool   `json:"done"`
	} `json:"releases"`
}

// TestWhyIsTrue: what `why` says would make a waiting pod fit is what then does, and `top` and
// `timeline` say the same of it.
func TestWhyIsTrue(t *testing.T) {
	s := stack.StartT(t, stack.Options{})
	kubectl, err := stack.BuildKubectl(t.Context(), t.TempDir())
	must(t, err)
	ask := func(code int, args ...string) report {
		t.Helper()
		args = append(args, "--kubeconfig", s.AdminKubeconfig(), "-o", "json")
		out, err := exec.CommandContext(t.Context(), kubectl, args...).Output()
		exit := (*exec.ExitError)(nil)
		if err != nil && !errors.As(err, &exit) || exit == nil && code != 0 || exit != nil && exit.ExitCode() != code {
			t.Fatalf("%s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, out)
		}
		var got report
		must(t, json.Unmarshal(out, &got))
		return got
	}
	device := func(uuid string, reserved, steady int64) {
		t.Helper()
		for _, d := range ask(0, "top", "devices").Devices {
			if d.UUID == uuid && (d.Reserved.MemoryMiB != reserved || d.Steady.MemoryMiB != steady ||
				d.Releasable.MemoryMiB != reserved-steady) {
				t.Errorf("%+v, want %d reserved and %d steady", d, reserved, steady)
			}
		}
	}

	must(t, s.Sim.AddNode(t.Context(), nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 1, 24576)}))
	must(t, s.Namespace(t.Context(), "ml"))
	d := s.Drive(t, "ml")
	first := d.Submit(d.Pod("first", stack.Init("load", stack.GPU(1, 20000)), stack.App("serve", stack.GPU(1, 5000))))
	d.Running(first, "load")
	next := d.Submit(d.Pod("next", stack.App("serve", stack.GPU(1, 12000))))
	d.Pending(next)

	uuid := nodesim.GPUs("n1", 1, 24576)[0].UUID
	device(uuid, 20000, 5000)
	got := ask(1, "why", "next", "-n", "ml")
	if got.State != "waiting" || len(got.Remedies) == 0 || got.Remedies[0].Kind != "end" ||
		!slices.Equal(got.Remedies[0].Nodes, []string{"n1"}) {
		t.Fatalf("%+v", got)
	}
	event := got.Remedies[0].Events[0]
	if len(got.Remedies[0].Events) != 1 || event.Pod != "first" || event.Container != "load" ||
		event.Releases[0].UUID != uuid || event.Releases[0].MemoryMiB != 15000 {
		t.Errorf("%+v", got.Remedies[0])
	}

	d.Finish(first, event.Container, 0)
	d.Scheduled(next)
	if got := ask(0, "why", "next", "-n", "ml"); got.State != "placed" {
		t.Errorf("%+v", got)
	}
	device(uuid, 17000, 17000)
	if got := ask(0, "timeline", "first", "-n", "ml"); len(got.Releases) != 2 || got.Releases[0].After != "load" ||
		!got.Releases[0].Done || got.Releases[1].Done {
		t.Errorf("%+v", got.Releases)
	}
}
