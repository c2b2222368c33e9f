package scenarios_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestRaces lets pods race for what is not enough for all.
func TestRaces(t *testing.T) {
	s := stack.StartT(t, stack.Options{})
	t.Run("50 pods, memory of one node for 20", func(t *testing.T) {
		race(t, s, 50, 20, nil, node("one", 2, 10_000))
	})
	t.Run("50 pods, memory of four nodes for 20", func(t *testing.T) {
		race(t, s, 50, 20, nil, node("a", 1, 5999), node("b", 2, 4000), node("c", 1, 6500), node("d", 1, 1000))
	})
	t.Run("50 pods, quota for 20", func(t *testing.T) {
		race(t, s, 50, 20, map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "20999"}, node("q", 4, 24576),
			node("r", 4, 24576))
	})
	t.Run("2 pods of 6000, quota of 10000", func(t *testing.T) { twoAtOnce(t, s, 6000, "10000", "quota") })
	t.Run("2 pods of 12000, card of 16384", func(t *testing.T) { twoAtOnce(t, s, 12000, "", "memory") })
}

func node(name string, gpus int, memoryMiB int64) nodesim.Node {
	n := nodesim.Node{Name: name, Devices: nodesim.GPUs(name, gpus, memoryMiB)}
	for i := range n.Devices {
		n.Devices[i].Capacity.Slots = 100
	}
	return n
}

// race creates pods of 1000 MiB at once, while kube-scheduler is stopped, so that admission lets all in, and
// expects exactly so many to run, the others to be pending for what is short, and nothing to change when all
// are tried again.
func race(t *testing.T, s *stack.Stack, pods, fit int, quota map[corev1.ResourceName]string, nodes ...nodesim.Node) {
	const namespace = "race"
	ctx := t.Context()
	w := arena(t, s, namespace, nodes...)
	short := "memory"
	if quota != nil {
		must(t, s.Quota(ctx, namespace, "team", quota))
		short = "quota"
	}
	stopped(t, s.Scheduler)
	all := createAtOnce(t, s, pods, func(i int) *corev1.Pod {
		return stack.NewPod(namespace, fmt.Sprintf("p%02d", i), stack.App("app", stack.GPU(1, 1000)))
	})
	must(t, s.Scheduler.Signal(syscall.SIGCONT))

	count := func() (running, pending int) {
		for _, pod := range all {
			p, _, err := w.Await(ctx, pod, "runs, or is pending for what is short", func(p *corev1.Pod) error {
				message := stack.UnschedulableReason(p)
				if p.Status.Phase == corev1.PodRunning || p.Spec.NodeName == "" && strings.Contains(message, short) {
					return nil
				}
				return fmt.Errorf("it is %s on node %q: %s", p.Status.Phase, p.Spec.NodeName, message)
			})
			must(t, err)
			if p.Spec.NodeName == "" {
				pending++
			} else {
				running++
			}
		}
		return running, pending
	}
	if running, pending := count(); running != fit || pending != pods-fit {
		t.Errorf("%d pods run and %d are pending, want %d and %d", running, pending, fit, pods-fit)
	}
	// An event that has kube-scheduler try all of them again.
	must(t, s.Sim.AnnotateNode(ctx, nodes[0].Name, map[string]string{"example.test/race": "again"}))
	loser := all[0]
	for _, pod := range all {
		if p, err := s.Pod(ctx, pod); err == nil && p.Spec.NodeName == "" {
			loser = pod
		}
	}
	must(t, s.Retry(ctx, loser))
	if running, _ := count(); running != fit {
		t.Errorf("%d pods run after another try, want %d", running, fit)
	}
	must(t, s.AwaitAudit(ctx))
	if over := w.OverCommitted(); len(over) > 0 {
		t.Errorf("over-committed: %s", strings.Join(over, "\n"))
	}
}

// arena makes a namespace and nodes, and clears them away when the test ends.
func arena(t *testing.T, s *stack.Stack, namespace string, nodes ...nodesim.Node) *stack.Witness {
	t.Helper()
	ctx := t.Context()
	must(t, s.Namespace(ctx, namespace))
	for _, n := range nodes {
		must(t, s.Sim.AddNode(ctx, n))
		must(t, s.AwaitNode(ctx, n.Name, n.Devices))
	}
	w, err := s.Witness(ctx, nodes...)
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		must(t, s.Clear(ctx, namespace))
		for _, n := range nodes {
			must(t, s.Sim.DeleteNode(ctx, n.Name))
			must(t, s.AwaitNoNode(ctx, n.Name))
		}
	})
	return w
}

// stopped stops a program and waits until it is: of its threads, one must first run to see the signal and stop
// the others, which on a busy machine takes a while.
func stopped(t *testing.T, p *process.Process) {
	t.Helper()
	must(t, p.Signal(syscall.SIGSTOP))
	must(t, stack.Eventually(t.Context(), p.Name+" is stopped", func(context.Context) error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		if err != nil {
			return err
		}
		for _, path := range threads { // none on other systems than Linux
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return fmt.Errorf("thread %s is not", path)
			}
		}
		return nil
	}))
}

func createAtOnce(t *testing.T, s *stack.Stack, n int, pod func(i int) *corev1.Pod) []*corev1.Pod {
	t.Helper()
	pods, err := s.CreateAll(t.Context(), n, pod)
	must(t, err)
	return pods
}

// twoAtOnce asks the extender itself, in kube-scheduler's place, about two pods at the same time: Filter finds
// room for either, Bind lets one in.
func twoAtOnce(t *testing.T, s *stack.Stack, memoryMiB int64, quota, short string) {
	const namespace = "two"
	ctx := t.Context()
	w := arena(t, s, namespace, node("two", 1, 16384))
	if quota != "" {
		must(t, s.Quota(ctx, namespace, "team", map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": quota}))
	}
	stopped(t, s.Scheduler)
	pods := createAtOnce(t, s, 2, func(i int) *corev1.Pod {
		return stack.NewPod(namespace, fmt.Sprint("p", i), stack.App("app", stack.GPU(1, memoryMiB)))
	})
	filtered := make([]extenderv1.ExtenderFilterResult, 2)
	must(t, stack.Each(2, func(i int) error {
		return ask(ctx, s, "/filter", extenderv1.ExtenderArgs{Pod: pods[i], NodeNames: &[]string{"two"}}, &filtered[i])
	}))
	for i, f := range filtered {
		if f.Error != "" || f.NodeNames == nil || len(*f.NodeNames) != 1 {
			t.Fatalf("Filter of pod %d: %+v, want node two", i, f)
		}
	}
	bound := make([]extenderv1.ExtenderBindingResult, 2)
	must(t, stack.Each(2, func(i int) error { return bind(ctx, s, pods[i], "two", &bound[i]) }))
	won, lost := 0, 1
	if bound[won].Error != "" {
		won, lost = 1, 0
	}
	if bound[won].Error != "" || !strings.Contains(bound[lost].Error, short) {
		t.Errorf("Bind: %q and %q, want success once and once a refusal that tells of %s", bound[0].Error,
			bound[1].Error, short)
	}
	// Bind is asked again about a pod that it has bound.
	var again, elsewhere extenderv1.ExtenderBindingResult
	must(t, bind(ctx, s, pods[won], "two", &again))
	must(t, bind(ctx, s, pods[won], "elsewhere", &elsewhere))
	if again.Error != "" || !strings.Contains(elsewhere.Error, "two") {
		t.Errorf("Bind again: %q, to another node: %q; want success and an error that names node two", again.Error,
			elsewhere.Error)
	}
	must(t, s.Scheduler.Signal(syscall.SIGCONT))
	must(t, s.Sim.AwaitRunning(ctx, pods[won], "app"))
	_, err := w.AwaitUnschedulable(ctx, pods[lost], short)
	must(t, err)
	must(t, s.AwaitAudit(ctx))
}

func bind(
	ctx context.Context, s *stack.Stack, pod *corev1.Pod, node string, result *extenderv1.ExtenderBindingResult,
) error {
	args := extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	return ask(ctx, s, "/bind", args, result)
}

// ask calls the extender as kube-scheduler does.
func ask(ctx context.Context, s *stack.Stack, path string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	code, text, err := post(ctx, http.DefaultClient, s.ExtenderURL+path, string(body))
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: status %d", path, code)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), result)
}

// post sends JSON, and returns the status and the text of the answer.
func post(ctx context.Context, client *http.Client, url, body string) (int, string, error) {
	return send(ctx, client, http.MethodPost, url, "application/json", body)
}

func send(ctx context.Context, client *http.Client, method, url, contentType, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", contentType)
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
