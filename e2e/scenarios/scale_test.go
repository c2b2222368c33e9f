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
	"time"

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
	writes := newWrites()
	end, err := s.Intercept(t.Context(), writes.wrap)
	if end != nil {
		defer end()
	}
	must(t, err)
	t.Run("1000 pods wait", func(t *testing.T) { thousandPods(t, s, writes) })
	t.Run("1000 nodes of which one fits", func(t *testing.T) { thousandNodes(t, s, writes) })
	must(t, s.Extender.Kill()) // it must not outlive its way to the API server
}

func thousandPods(t *testing.T, s *stack.Stack, writes *writes) {
	const namespace, pods = "waiting", 1000
	ctx := t.Context()
	w := arena(t, s, namespace, node("small", 1, 8192))
	d := s.Drive(t, namespace)
	pod := func(name string) *corev1.Pod { return d.Pod(name, stack.App("app", stack.GPU(1, 8000))) }
	holder := d.Running(d.Submit(pod("holder")), "app")
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
	if b, a := strings.Count(before, "\n"), strings.Count(after, "\n"); a > b+50 ||
		strings.Contains(after, "waiting-") {
		t.Errorf("%d lines of metrics became %d with %d pods, and must not have a label for each", b, a, pods)
	}

	// Room for one.
	d.Delete(holder)
	awaitBound(t, s, namespace, 1, stack.EventuallyTimeout)
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
	noThrottling(t, s)
}

// awaitBound waits until so many pods of a namespace have a node.
func awaitBound(t *testing.T, s *stack.Stack, namespace string, want int, most time.Duration) {
	t.Helper()
	what := fmt.Sprintf("%d pods of namespace %s are bound", want, namespace)
	must(t, stack.Within(t.Context(), most, what, func(ctx context.Context) error {
		bound, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
		if err == nil && len(bound.Items) != want {
			err = fmt.Errorf("%d are", len(bound.Items))
		}
		return err
	}))
}

// count is the value of a series of the extender that counts, 0 when it is not there.
func count(t *testing.T, s *stack.Stack, series string) (n int) {
	t.Helper()
	metrics, err := s.ExtenderMetrics(t.Context())
	must(t, err)
	if text, ok := stack.Metric(metrics, series); ok {
		_, err = fmt.Sscan(text, &n)
		must(t, err)
	}
	return n
}

// filters is how many calls of Filter had these results.
func filters(t *testing.T, s *stack.Stack, results ...string) (n int) {
	t.Helper()
	for _, result := range results {
		n += count(t, s, fmt.Sprintf(`phasegpu_extender_request_duration_seconds_count{result=%q,verb="filter"}`,
			result))
	}
	return n
}

// nudges is how many pods the extender has nudged.
func nudges(t *testing.T, s *stack.Stack) int {
	t.Helper()
	return count(t, s, `phasegpu_nudges_total{result="nudged"}`)
}

// noThrottling expects that the extender's client has not throttled itself.
func noThrottling(t *testing.T, s *stack.Stack) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(s.LogDir(), "phasegpu-extender.log"))
	must(t, err)
	if strings.Contains(string(log), "throttl") {
		t.Errorf("the extender's client throttles itself:\n%s", s.Extender.Tail())
	}
}

func thousandNodes(t *testing.T, s *stack.Stack, writes *writes) {
	const namespace, nodes, fits = "needle", 1000, 700
	ctx := t.Context()
	must(t, s.Namespace(ctx, namespace))
	writes.reset()
	// kube-scheduler looks at the one that fits neither first nor last.
	must(t, stack.Each(nodes, func(i int) error {
		memoryMiB := int64(8192)
		if i == fits {
			memoryMiB = 24576
		}
		return s.Sim.AddNode(ctx, nodesim.Node{Name: nodeName(i), Devices: nodesim.GPUs(nodeName(i), 1, memoryMiB)})
	}))
	d := s.Drive(t, namespace)
	d.AwaitBooks("the extender knows all nodes", func(l *stack.Ledger) error {
		if len(l.Nodes) < nodes {
			return fmt.Errorf("it knows %d", len(l.Nodes))
		}
		return nil
	})
	ok, refused := filters(t, s, "ok"), filters(t, s, "refused")
	bound := d.Scheduled(d.Submit(d.Pod("needle", stack.App("app", stack.GPU(1, 20480)))))
	if want := nodeName(fits); bound.Spec.NodeName != want {
		t.Errorf("the pod is on node %s, want %s", bound.Spec.NodeName, want)
	}
	if o, r := filters(t, s, "ok")-ok, filters(t, s, "refused")-refused; o != 1 || r != 0 {
		t.Errorf("the pod passed Filter %v times and was refused %v times, want once and never", o, r)
	}
	writes.want(t, map[string]int{"create pods/binding": 1})

	// What all nodes lack is said once.
	message := d.Pending(d.Submit(d.Pod("next", stack.App("app", stack.GPU(1, 20480)))), "0/1000 nodes are available",
		"memory")
	if len(message) > 1000 {
		t.Errorf("the reason has %d bytes", len(message))
	}
	must(t, s.AwaitAudit(ctx))
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// writes counts what changes something at the API server.
type writes struct {
	mu    sync.Mutex
	count map[string]int // by verb and resource, without events
	pods  map[string]int // patches, by the pod's path
}

func newWrites() *writes { return &writes{count: map[string]int{}, pods: map[string]int{}} }

func (c *writes) wrap(apiServer http.Handler) http.Handler {
	verbs := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if verb, what := verbs[r.Method], resource(r.URL.Path); verb != "" && what != "events" {
			c.mu.Lock()
			c.count[verb+" "+what]++
			if verb == "patch" && what == "pods" {
				c.pods[r.URL.Path]++
			}
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

// patched is how many patches of pods there were, and of one pod at most.
func (c *writes) patched() (sum, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.pods {
		sum, most = sum+n, max(most, n)
	}
	return sum, most
}
