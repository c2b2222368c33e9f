package allocate_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// newRefitNode has a plugin that asks a service.
func newRefitNode(t *testing.T, replicas int, b behaviour) (*node, *service) {
	t.Helper()
	n := newNode(t, replicas)
	s := n.serveRefit(b)
	n.restartPlugin()
	return n, s
}

// aligning has a pod opt in to NUMA refit, or not.
func aligning(alignment string, pod *corev1.Pod) *corev1.Pod {
	if alignment != "" {
		pod.Annotations["hami.io/numa-alignment"] = alignment
	}
	return pod
}

// situation is a way in which kubelet comes to want the last container of a pod, recorded on G0, on NUMA
// node 1, where G1 is.
type situation struct {
	replicas int
	parts    []part
	near     map[string]int
	calls    []string
}

var situations = map[string]situation{
	"offered": {4, []part{{"A", on("G0", 1000)}}, map[string]int{"a0": 1},
		[]string{"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]"}},
	"inherited": {4, []part{{"I", on("G1", 2000)}, {"A", on("G0", 1000)}}, map[string]int{"i0": 1, "a1": 1},
		[]string{"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]", "Allocate [1×n1]"}},
	"forced": {1, []part{{"A", on("G0", 1000)}}, map[string]int{"a0": 1},
		[]string{"Allocate [1×n1]"}},
}

// The truth table: what becomes of the last container in every situation, by how the refit service behaves.
func TestRefit(t *testing.T) {
	services := map[string]struct {
		behave behaviour
		before func(*node, *service) // plugin and kubelet start
		moved  bool
		says   string // of a strict pod, when not moved
	}{
		"moves":          {behave: works, moved: true},
		"moves silently": {behave: silent, moved: true},
		"refuses":        {behave: works, before: crowd, says: "Insufficient GPU "},
		"is slow":        {behave: slow, says: "did not answer within 2s"},
		"is down": {behave: works, before: func(_ *node, s *service) { s.Close() },
			says: "connection refused"},
		"answers garbage": {behave: garbage, says: "HTTP status 200: json: cannot unmarshal"},
		"lies":            {behave: liar, says: "left its record as it is"},
		"has another name": {behave: works, before: func(n *node,
			_ *service) {
			n.client.URL = strings.Replace(n.client.URL, "127.0.0.1", "localhost", 1)
		},
			says: "certificate"},
		"is not there": {behave: works, before: func(n *node, _ *service) { n.client = nil },
			says: "no refit service is configured"},
	}
	for name, service := range services {
		for where, situation := range situations {
			for _, alignment := range []string{"", "best-effort", "strict"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, where, alignment), func(t *testing.T) {
					t.Parallel()
					n := newNode(t, situation.replicas)
					s := n.serveRefit(service.behave)
					if service.before != nil {
						service.before(n, s)
					}
					n.restartPlugin()
					pod := aligning(alignment, newPod("p", situation.parts...))
					was := pod.Annotations[record]
					n.bind(pod)
					start := time.Now()
					err := n.Admit(t.Context(), pod, situation.near)
					if took := time.Since(start); took > refit.Budget+5*time.Second {
						t.Errorf("took %v", took)
					}
					questions := 1
					if alignment == "" || name == "is down" || name == "has another name" || name == "is not there" {
						questions = 0
					}
					if got := len(s.asked()); got != questions {
						t.Errorf("%d questions, want %d", got, questions)
					}
					if alignment == "strict" && !service.moved {
						refused(t, err, "pod team/p, container a",
							"recorded is G0 on NUMA node 0, kubelet's ids are on 1", "strict", service.says)
						return
					}
					must(t, err)
					n.report(pod, corev1.PodRunning)
					want := was
					if service.moved && alignment != "" {
						want = strings.ReplaceAll(was, "G0", "G1")
					}
					if got := pod.Annotations[record]; got != want {
						t.Errorf("recorded is %q, want %q", got, want)
					}
					n.restartPlugin() // it knows what was served
					n.holds(pod)
					n.drifts(allocate.Drift{})
					if calls := n.Calls(); alignment != "" {
						if diff := cmp.Diff(situation.calls, calls); diff != "" {
							t.Errorf("calls (-want +got):\n%s", diff)
						}
					}
				})
			}
		}
	}
}

// crowd has another pod, with ids of NUMA node 0, hold nearly all of G1's memory.
func crowd(n *node, _ *service) {
	n.admit(newPod("other", part{"A", on("G1", 24000)}), map[string]int{"a0": 0})
	n.Calls()
}

// What is asked for: the container by name and position, and the healthy devices of kubelet's NUMA node.
func TestQuestion(t *testing.T) {
	n, s := newRefitNode(t, 4, works)
	pod := aligning("strict", newPod("p", part{"I", ""}, part{"A", on("G0", 1000)}))
	n.bind(pod)
	must(t, n.Admit(t.Context(), pod, map[string]int{"a1": 1}))
	want := []*refit.Request{{
		Pod: refit.Pod{Namespace: "team", Name: "p", UID: "p"}, Node: "n1",
		Container: refit.Container{Name: "a1", Position: 1}, Family: "NVIDIA", Allowed: []string{"G1"},
	}}
	if diff := cmp.Diff(want, s.asked()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Init, sidecar and app in one pod, each followed by itself; then a pod that fits where the first was.
func TestRefitOfEveryContainer(t *testing.T) {
	n, s := newRefitNode(t, 4, works)
	pod := aligning("strict", newPod("p", part{"I", on("G0", 20000)}, part{"S", on("G0", 2000)},
		part{"A", on("G0", 10000)}))
	n.admit(pod, map[string]int{"i0": 1, "a2": 1})
	if got, want := pod.Annotations[record], on("G1", 20000)+";"+on("G1", 2000)+";"+on("G1", 10000)+";"; got != want {
		t.Errorf("recorded is %q, want %q", got, want)
	}
	if got := len(s.asked()); got != 3 {
		t.Errorf("%d questions, want one for each container", got)
	}
	n.drifts(allocate.Drift{})
	n.admit(aligning("strict", newPod("next", part{"A", on("G0", 24000)})), map[string]int{"a0": 0})
}

// If the record is right already, or kubelet's ids are on the NUMA node of the recorded devices, the service is not asked,
// whichever devices of the NUMA node the ids belong to.
func TestNothingToAsk(t *testing.T) {
	n, s := newRefitNode(t, 2, slow)
	n.admit(aligning("strict", newPod("near", part{"I", on("G1", 2000)}, part{"A", on("G1", 1000)})),
		map[string]int{"i0": 1, "a1": 1})
	n.admit(aligning("strict", newPod("anywhere", part{"A", on("G0", 1000)})), nil)
	n.admit(newPod("not opted in", part{"A", on("G0", 1000)}), map[string]int{"a0": 1})
	if got := s.asked(); len(got) > 0 {
		t.Errorf("asked %+v", got[0])
	}
}

// All ids of the recorded card are with others: kubelet is given one of the card beside it.
func TestIDsOfTheCardBeside(t *testing.T) {
	n := newNode(t, 1)
	devices, _, _ := n.devices.Get()
	beside := devices[0]
	beside.UUID, beside.Index = "G2", 2
	n.devices.Set(append(slices.Clone(devices), beside))
	await.Until(n.t, "the list", func() bool { return len(n.Kubelet.Devices()) == 3 })
	n.admit(newPod("other", part{"A", on("G1", 1000)}), map[string]int{"a0": 0}) // gets G0's
	s := n.serveRefit(works)
	n.restartPlugin()
	pod := aligning("strict", newPod("p", part{"A", on("G0", 1000)}))
	n.admit(pod, nil)
	if got := n.Held("p", "a0").IDs; !slices.Equal(got, []string{"G2::0"}) || len(s.asked()) > 0 {
		t.Errorf("ids %v after %d questions, want G2's after none", got, len(s.asked()))
	}
}

// The last ids of a NUMA node are given without asking, so the question is put in Allocate.
func TestTheLastIDs(t *testing.T) {
	n := newNode(t, 2)
	n.admit(newPod("other", part{"A", on("G1", 1000)}), map[string]int{"a0": 1})
	s := n.serveRefit(works)
	n.restartPlugin()
	n.admit(aligning("best-effort", newPod("p", part{"A", on("G0", 1000)})), map[string]int{"a0": 1})
	if len(s.asked()) != 1 {
		t.Errorf("%d questions, want 1", len(s.asked()))
	}
}

// With policy none kubelet offers everything but what an init has left: the app must go there.
func TestRefitToWhatTheInitLeft(t *testing.T) {
	n, s := newRefitNode(t, 4, works)
	pod := aligning("strict", newPod("p", part{"I", on("G1", 2000)}, part{"A", on("G0", 1000)}))
	n.admit(pod, nil)
	if got, want := pod.Annotations[record], on("G1", 2000)+";"+on("G1", 1000)+";"; got != want || len(s.asked()) != 1 {
		t.Errorf("recorded is %q after %d questions, want %q after 1", got, len(s.asked()), want)
	}
}

// A refit that is carried out only after the plugin has given up and served the recorded device: the books
// say the new one, so the container must not start on the old.
func TestRefitComesTooLate(t *testing.T) {
	n := newNode(t, 4)
	served, done := make(chan struct{}), make(chan struct{})
	n.serveRefit(func(s *service, _ http.ResponseWriter, _ *http.Request, q *refit.Request) {
		defer close(done)
		<-served
		if _, refusal := s.decide(q); refusal != nil {
			t.Errorf("refused: %v", refusal)
		}
	})
	n.restartPlugin()
	pod := aligning("best-effort", newPod("p", part{"A", on("G0", 1000)}))
	n.bind(pod)
	must(t, n.Admit(t.Context(), pod, map[string]int{"a0": 1}))
	close(served)
	<-done
	n.report(pod, corev1.PodRunning)
	refused(t, n.StartContainer(t.Context(), "p", "a0"),
		"container a0 of pod team/p was given G0 and is now recorded on G1", "delete the pod")
	n.drifts(allocate.Drift{Moved: 1})
}

// Two pods wait with the same record. Kubelet does not say for which it allocates, so neither is moved (the
// extender's gate keeps such pods apart).
func TestIdenticalPodsAreNotMoved(t *testing.T) {
	n, _ := newRefitNode(t, 4, works)
	one, two := aligning("best-effort", newPod("one", part{"A", on("G0", 1000)})),
		aligning("best-effort", newPod("two", part{"A", on("G0", 1000)}))
	n.bind(one, two)
	for _, pod := range []*corev1.Pod{two, one} {
		must(t, n.Admit(t.Context(), pod, map[string]int{"a0": 1}))
		n.holds(pod)
	}
	n, _ = newRefitNode(t, 4, works)
	one, two = aligning("strict", newPod("one", part{"A", on("G0", 1000)})),
		aligning("strict", newPod("two", part{"A", on("G0", 1000)}))
	n.bind(one, two)
	refused(t, n.Admit(t.Context(), one, map[string]int{"a0": 1}), "does not say for which one it allocates",
		"AnotherInGate")
}

// An unknown alignment is an error.
func TestUnknownAlignment(t *testing.T) {
	n := newNode(t, 4)
	pod := aligning("exact", newPod("p", part{"A", on("G0", 1000)}))
	n.bind(pod)
	refused(t, n.admitting(pod), "pod team/p", "hami.io/numa-alignment", "use best-effort or strict")
}
