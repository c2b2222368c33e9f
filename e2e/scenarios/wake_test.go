package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestWakeUp: 300 times over, a pod is refused, the init container that it waits for finishes, and the pod must be
// scheduled: within two seconds on an idle machine, which the distribution shows, and never by kube-scheduler's
// five-minute flush. Then the extender's watch is half a second late, so that kube-scheduler's retry comes first and
// meets books that do not show the release yet.
func TestWakeUp(t *testing.T) {
	const lanes = 10
	s := stack.StartT(t, stack.Options{})
	for lane := range lanes {
		name := fmt.Sprintf("lane-%d", lane)
		must(t, s.Sim.AddNode(t.Context(),
			nodesim.Node{Name: name, Labels: map[string]string{"lane": name}, Devices: nodesim.GPUs(name, 1, 24576)}))
	}
	w, err := s.Witness(t.Context())
	must(t, err)

	t.Run("as it comes", func(t *testing.T) {
		wakeUps(t, s, w, "now", lanes, 30)
	})
	t.Run("kube-scheduler first", func(t *testing.T) {
		const lag = 500 * time.Millisecond
		end, err := s.Intercept(t.Context(), func(apiServer http.Handler) http.Handler {
			return lateWatches(apiServer, func() time.Duration { return lag })
		})
		if end != nil {
			defer end()
		}
		must(t, err)
		before := nudges(t, s)
		// One at a time: events of other pods would have kube-scheduler try this one again.
		took := wakeUps(t, s, w, "late", 1, 12)
		if least := slices.Min(took); least < lag {
			t.Errorf("a pod was scheduled %v after the init container had ended, before the extender could know", least)
		}
		if got := nudges(t, s) - before; got < len(took) {
			t.Errorf("%d nudges for %d pods: kube-scheduler was not first, and nothing was shown", got, len(took))
		}
		must(t, s.Extender.Kill()) // it must not outlive its way to the API server
	})
}

// wakeUps plays the story in parallel lanes, each on a node of its own, and returns how long each pod took.
func wakeUps(t *testing.T, s *stack.Stack, w *stack.Witness, name string, lanes, rounds int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for round := range rounds {
				d, err := wakeUp(t.Context(), s, w, fmt.Sprintf("lane-%d", lane),
					fmt.Sprintf("%s-%d-%d", name, lane, round))
				if err != nil {
					t.Errorf("lane %d, round %d: %v", lane, round, err)
					return
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("from the end of the init container to the node of the pod that waited for it:\n%s",
		stack.Distribution(took))
	if len(took) != lanes*rounds {
		t.Fatalf("%d of %d rounds went well", len(took), lanes*rounds)
	}
	return took
}

// wakeUp has one pod wait for the init container of another, and returns how long after its end the pod is
// scheduled.
func wakeUp(ctx context.Context, s *stack.Stack, w *stack.Witness, node, name string) (time.Duration, error) {
	onNode := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeSelector = map[string]string{"lane": node}
		return pod
	}
	holder, err := s.Create(ctx, onNode(stack.NewPod("default", name+"-holder", stack.Init("load", stack.GPU(1, 20480)),
		stack.App("app", stack.GPU(1, 10240)))))
	if err != nil {
		return 0, err
	}
	if _, _, err := w.AwaitBound(ctx, holder); err != nil {
		return 0, err
	}
	if err := s.Sim.AwaitRunning(ctx, holder, "load"); err != nil {
		return 0, err
	}
	waiter, err := s.Create(ctx, onNode(stack.NewPod("default", name+"-waiter", stack.App("app", stack.GPU(1, 12288)))))
	if err != nil {
		return 0, err
	}
	if _, err := w.AwaitUnschedulable(ctx, waiter); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.Sim.Finish(ctx, holder, "load", 0); err != nil {
		return 0, err
	}
	patience, cancel := context.WithDeadline(ctx, began.Add(10*time.Second))
	defer cancel()
	_, bound, err := w.AwaitBound(patience, waiter)
	if err != nil {
		return 0, fmt.Errorf("%v after the init container had ended: %w", time.Since(began).Round(time.Millisecond),
			err)
	}
	now := int64(0)
	at := metav1.DeleteOptions{GracePeriodSeconds: &now}
	return bound.Sub(began), errors.Join(
		s.Client.CoreV1().Pods("default").Delete(ctx, waiter.Name, at),
		s.Client.CoreV1().Pods("default").Delete(ctx, holder.Name, at))
}

// lateWatches passes on what watches of pods tell only some time later, in order.
func lateWatches(apiServer http.Handler, lag func() time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/pods") {
			apiServer.ServeHTTP(w, r)
			return
		}
		late := &lateWriter{ResponseWriter: w, lag: lag, chunks: make(chan chunk, 10_000), end: make(chan struct{})}
		go late.run()
		defer func() { close(late.chunks); <-late.end }()
		apiServer.ServeHTTP(late, r)
	})
}

type lateWriter struct {
	http.ResponseWriter
	lag    func() time.Duration
	chunks chan chunk
	end    chan struct{}
}

type chunk struct {
	due  time.Time
	body []byte
}

func (l *lateWriter) Write(body []byte) (int, error) {
	l.chunks <- chunk{time.Now().Add(l.lag()), slices.Clone(body)}
	return len(body), nil
}

// Flush makes the header late, too.
func (l *lateWriter) Flush() { l.chunks <- chunk{due: time.Now().Add(l.lag())} }

func (l *lateWriter) run() {
	defer close(l.end)
	for c := range l.chunks {
		time.Sleep(time.Until(c.due)) // this is the slow network
		if _, err := l.ResponseWriter.Write(c.body); err == nil {
			l.ResponseWriter.(http.Flusher).Flush()
		}
	}
}
