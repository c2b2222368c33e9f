package scenarios_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestBindingAnswerLost: the extender is killed, or does not get the answer, between the Binding that it writes and the
// API server's answer. The pod is charged once and runs, and kube-scheduler gets success when it asks again.
func TestBindingAnswerLost(t *testing.T) {
	s := stack.StartT(t, stack.Options{})
	road := &road{sprung: make(chan string, 1)}
	end, err := s.Intercept(t.Context(), road.wrap)
	if end != nil {
		defer end()
	}
	must(t, err)

	dead := func(written bool) trap {
		return func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) string {
			said := "nothing"
			if written {
				said = forward(r, apiServer)
			}
			if err := s.Extender.Kill(); err != nil {
				return err.Error()
			}
			return said
		}
	}
	deaf := func(_ http.ResponseWriter, r *http.Request, apiServer http.Handler) string {
		return forward(r, apiServer)
	}
	for _, c := range []struct {
		name    string
		trap    trap
		said    string // by the API server
		restart bool
		lag     time.Duration // of the extender's watch of pods
	}{
		{"killed after the write", dead(true), "201", true, 0},
		{"killed after the write and slow to learn", dead(true), "201", true, 4 * time.Second},
		{"killed before the write", dead(false), "nothing", true, 0},
		{"the answer is lost", deaf, "201", false, 0},
		{"the answer is lost and the watch late", deaf, "201", false, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := strings.ReplaceAll(c.name, " ", "-")
			ctx := t.Context()
			w := arena(t, s, name, node(name, 1, 24576))
			road.lag.Store(int64(c.lag))
			defer road.lag.Store(0)
			s.Sim.Pause(name)
			t.Cleanup(func() { s.Sim.Resume(name) })
			road.trap.Store(&c.trap)
			d := s.Drive(t, name)
			pod := d.Submit(d.Pod("train", stack.Init("load", stack.GPU(1, 20000)),
				stack.App("train", stack.GPU(1, 4000))))
			if said := <-road.sprung; said != c.said {
				t.Fatalf("the API server answered the Binding with %s, want %s", said, c.said)
			}
			// What the pod holds is not given away although the extender has not learned that it does.
			thief := d.Pod("thief", stack.App("app", stack.GPU(1, 20000)))
			if c.said == "201" {
				thief = d.Submit(thief)
			}
			if c.restart {
				must(t, s.Extender.Start(ctx))
			}
			if c.said == "201" {
				_, err := w.AwaitUnschedulable(ctx, thief)
				must(t, err)
				must(t, s.Retry(ctx, thief))
			}
			d.Scheduled(pod)
			d.Holds(pod, 20000)

			// Kubelet has not reported on it: the next one waits in the gate, also when the extender was restarted.
			next := d.Submit(d.Pod("next", stack.App("app", stack.GPU(1, 1000))))
			d.AwaitBooks("the gate is shut by the first pod, for the second", func(l *stack.Ledger) error {
				for _, g := range l.Gates {
					if g.Node == name && len(g.Inside) == 1 && strings.Contains(g.Inside[0], pod.Name) &&
						g.Waiting == 1 {
						return nil
					}
				}
				return fmt.Errorf("gates are %+v", l.Gates)
			})
			s.Sim.Resume(name)
			d.Running(pod, "load")
			d.Running(next, "app")

			var again, elsewhere extenderv1.ExtenderBindingResult
			must(t, bind(ctx, s, pod, name, &again))
			must(t, bind(ctx, s, pod, "elsewhere", &elsewhere))
			if again.Error != "" || !strings.Contains(elsewhere.Error, name) {
				t.Errorf("Bind again: %q, to another node: %q; want success and an error that names the node",
					again.Error, elsewhere.Error)
			}
			must(t, s.AwaitAudit(ctx))
			d.Delete(thief)
			d.Finish(pod, "load", 0)
			d.Reserved("GPU-"+name+"-0", 5000)
			must(t, s.AwaitAudit(ctx))
			if over := w.OverCommitted(); len(over) > 0 {
				t.Errorf("over-committed: %v", over)
			}
			if n := len(s.Sim.Admissions(name)); n != 2 {
				t.Errorf("kubelet admitted %d pods, want 2", n)
			}
		})
	}
	must(t, s.Extender.Kill()) // it must not outlive its way to the API server
}

// road is the extender's way to the API server, with a trap for the next Binding.
type road struct {
	trap   atomic.Pointer[trap]
	lag    atomic.Int64 // of watches of pods
	sprung chan string  // what the API server said
}

// trap takes one Binding's request, whose answer is then lost, and returns what the API server said.
type trap func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) string

func (road *road) wrap(apiServer http.Handler) http.Handler {
	apiServer = lateWatches(apiServer, func() time.Duration { return time.Duration(road.lag.Load()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
			if trap := road.trap.Swap(nil); trap != nil {
				road.sprung <- (*trap)(w, r, apiServer)
				panic(http.ErrAbortHandler) // breaks the connection
			}
		}
		apiServer.ServeHTTP(w, r)
	})
}

// forward sends a request to the API server and drops the answer.
func forward(r *http.Request, apiServer http.Handler) string {
	answer := httptest.NewRecorder()
	apiServer.ServeHTTP(answer, r)
	return fmt.Sprint(answer.Code)
}
