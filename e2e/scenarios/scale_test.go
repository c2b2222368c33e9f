package scenarios_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestScale counts what the extender writes to the API server: one Binding for a pod that meets no contention,
// nothing for a node, nothing for a pod that waits, and one nudge for a pod for which there is room. Events are
// counted apart: one for a pod that was placed.
func TestScale(t *testing.T) {
	s := stack.StartT(t, stack.Options{Scheduler: stack.Patient})
	writes := &writes{count: map[string]int{}}
	end, err := s.Intercept(t.Context(), writes.wrap)
	if end != nil {
		defer end()
	}
	must(t, err)
	t.Run("case 51: 1000 pods wait", func(t *testing.T) { thousandPods(t, s, writes) })
	t.Run("case 50: 1000 nodes of which one fits", func(t *testing.T) { thousandNodes(t, s, writes) })
	must(t, s.Extender.Kill()) // it must not outlive its way to the API server
}

func thousandPods(t *testing.T, s *stack.Stack, writes *writes) {
	const namespace, pods = "waiting", 1000
	ctx := t.Context()
	w := arena(t, s, namespace, node("small", 1, 8192))
	pod := func(name string) *corev1.Pod {
		return stack.NewPod(namespace, name, stack.App("app", stack.GPU(1, 8000)))
	}
	holder, err := s.Create(ctx, pod("holder"))
	must(t, err)
	must(t, s.Sim.AwaitRunning(ctx, holder, "app"))
	before, err := s.ExtenderMetrics(ctx)
	must(t, err)

	all := createAtOnce(t, s, pods, func(i int) *corev1.Pod { return pod(fmt.Sprintf("waiting-%03d", i)) })
	for _, pod := range all {
		_, err := w.AwaitUnschedulable(ctx, pod)
		must(t, err)
	}
	writes.want(t, map[string]int{"create pods/binding": 1})
	after, err := s.ExtenderMetrics(ctx)
	must(t, err)
	if b, a := strings.Count(before, "\n"), strings.Count(after, "\n"); a > b+50 || strings.Contains(after, "waiting-") {
		t.Errorf("%d lines of metrics became %d with %d pods, and must not have a label for each", b, a, pods)
	}

	// Room for one.
	must(t, s.Delete(ctx, holder))
	must(t, stack.Eventually(ctx, "one of those that wait is bound", func(ctx context.Context) error {
		n, err := numBound(ctx, s, namespace)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	}))
	must(t, s.AwaitAudit(ctx))
	nudged := nudges(t, s)
	t.Logf("%d nudges for room for one of %d pods", nudged, pods)
	if nudged > 2 {
		t.Errorf("%d nudges for room for one", nudged)
	}
	want := map[string]int{"create pods/binding": 2}
	if nudged > 0 {
		want["patch pods"] = nudged
	}
	writes.want(t, want)
	events, err := s.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	must(t, err)
	placed := 0
	for _, e := range events.Items {
		switch {
		case e.ReportingController != "phasegpu-extender" && e.Source.Component != "phasegpu-extender":
		case e.Reason == "GPUPlaced":
			placed++
		default:
			t.Errorf("event of ours: %s %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	if placed > 2 {
		t.Errorf("%d events of pods that were placed, and 2 were", placed)
	}
	log, err := os.ReadFile(filepath.Join(s.LogDir(), "phasegpu-extender.log"))
	must(t, err)
	if strings.Contains(string(log), "throttl") {
		t.Errorf("the extender's client throttles itself:\n%s", s.Extender.Tail())
	}
}

func numBound(ctx context.Context, s *stack.Stack, namespace string) (int, error) {
	bound, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		return 0, err
	}
	return len(bound.Items), nil
}

func thousandNodes(t *testing.T, s *stack.Stack, writes *writes) {
	const namespace, nodes, fits = "needle", 1000, 700
	ctx := t.Context()
	must(t, s.Namespace(ctx, namespace))
	writes.reset()
	// The one that fits is neither among the first nor among the last that kube-scheduler looks at.
	addNodes(t, s, 0, fits, 8192)
	addNodes(t, s, fits, fits+1, 24576)
	addNodes(t, s, fits+1, nodes, 8192)
	must(t, stack.Eventually(ctx, "the extender knows all nodes", func(ctx context.Context) error {
		l, err := s.Ledger(ctx)
		if err == nil && len(l.Nodes) < nodes {
			err = fmt.Errorf("it knows %d", len(l.Nodes))
		}
		return err
	}))
	filtered := func(result string) (n float64) {
		metrics, err := s.ExtenderMetrics(ctx)
		must(t, err)
		if text, ok := stack.Metric(metrics, fmt.Sprintf(`phasegpu_extender_request_duration_seconds_count{result=%q,verb="filter"}`, result)); ok {
			_, err = fmt.Sscan(text, &n)
			must(t, err)
		}
		return n
	}
	ok, refused := filtered("ok"), filtered("refused")
	pod, err := s.Create(ctx, stack.NewPod(namespace, "needle", stack.App("app", stack.GPU(1, 20480))))
	must(t, err)
	bound, err := s.AwaitBound(ctx, pod)
	must(t, err)
	if want := nodeName(fits); bound.Spec.NodeName != want {
		t.Errorf("the pod is on node %s, want %s", bound.Spec.NodeName, want)
	}
	if o, r := filtered("ok")-ok, filtered("refused")-refused; o != 1 || r != 0 {
		t.Errorf("the pod passed Filter %v times and was refused %v times, want once and never", o, r)
	}
	writes.want(t, map[string]int{"create pods/binding": 1})

	// What all nodes lack is said once.
	next, err := s.Create(ctx, stack.NewPod(namespace, "next", stack.App("app", stack.GPU(1, 20480))))
	must(t, err)
	message, err := s.AwaitUnschedulable(ctx, next)
	must(t, err)
	t.Log(message)
	if !strings.Contains(message, "0/1000 nodes are available") || !strings.Contains(message, "memory") || len(message) > 1000 {
		t.Errorf("the next pod is pending: %q does not tell in short that memory is", message)
	}
	must(t, s.AwaitAudit(ctx))
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func addNodes(t *testing.T, s *stack.Stack, from, to int, memoryMiB int64) {
	t.Helper()
	next := make(chan string)
	errs := make(chan error, to-from)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for name := range next {
				errs <- s.Sim.AddNode(t.Context(), nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 1, memoryMiB)})
			}
		})
	}
	for i := from; i < to; i++ {
		next <- nodeName(i)
	}
	close(next)
	all.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
}

// writes counts what changes something at the API server.
type writes struct {
	mu    sync.Mutex
	count map[string]int // by verb and resource, without events
}

func (c *writes) wrap(apiServer http.Handler) http.Handler {
	verbs := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if verb, what := verbs[r.Method], resource(r.URL.Path); verb != "" && what != "events" {
			c.mu.Lock()
			c.count[verb+" "+what]++
			c.mu.Unlock()
		}
		apiServer.ServeHTTP(w, r)
	})
}

// resource takes "pods/binding" out of "/api/v1/namespaces/N/pods/P/binding".
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if p == "namespaces" && i+2 < len(parts) {
			parts = parts[i+2:]
			break
		}
	}
	if len(parts) >= 3 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

func (c *writes) want(t *testing.T, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	got := maps.Clone(c.count)
	c.mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes of the extender (-want +got):\n%s", diff)
	}
}

func (c *writes) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.count)
}
