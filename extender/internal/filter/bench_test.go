package filter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/metrics"
	"github.com/phasegpu/phasegpu/extender/internal/requeue"
	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/gen/baseline"
)

// These benchmarks are calls of kube-scheduler, HTTP handler in to out, so JSON included, over clusters of
// several sizes: 100, 1,000 and 5,000 nodes of 8 devices and 8 pods, and for growth half the nodes and twice the
// pods of the largest.
var sizes = []struct{ nodes, perNode int }{{100, 8}, {1000, 8}, {2500, 8}, {5000, 8}, {5000, 16}}

// newPods are a pod that fits on every node and one that fits on none.
var newPods = map[string]*corev1.Pod{
	"fits":    baseline.Pod("new", 6000, 1000, 4000),
	"refused": baseline.Pod("new", 23000, 1000, 4000),
}

// beside runs a benchmark of ours and of the baseline, one after the other.
func beside(b *testing.B, name string, ours, peer func(b *testing.B)) {
	b.Run(name+"/by=phasegpu", ours)
	b.Run(name+"/by=peer", peer)
}

// calls runs one call over every size.
func calls(b *testing.B, path string, pods []string, check func(b *testing.B, nodes int, pod string, answer []byte)) {
	for _, pod := range pods {
		for _, size := range sizes {
			by := func(handler func(*baseline.Cluster) http.Handler) func(b *testing.B) {
				return func(b *testing.B) {
					// Each has its own cluster: ours keeps no pods for the garbage collector to scan.
					c := baseline.New(size.nodes, size.perNode)
					h, request := handler(c), body(b, c.Names(), newPods[pod])
					serve(b, h, "/filter", request) // kube-scheduler asks for scores right after it
					check(b, size.nodes, pod, serve(b, h, path, request))
					measure(b, func() { serve(b, h, path, request) })
				}
			}
			name := fmt.Sprintf("pod=%s/nodes=%d/pods=%d", pod, size.nodes, size.nodes*size.perNode)
			beside(b, name, by(extender), by(peer))
		}
	}
}

// BenchmarkFilter is one Filter call, for a pod that fits on every node and for one that fits on none. Budget
// (docs/design.md, section 9): 10 ms over 5,000 nodes, for 99 calls of 100.
func BenchmarkFilter(b *testing.B) {
	calls(b, "/filter", []string{"fits", "refused"}, func(b *testing.B, nodes int, pod string, answer []byte) {
		var result extenderv1.ExtenderFilterResult
		want := map[string]int{"fits": nodes, "refused": 0}[pod]
		if err := json.Unmarshal(answer, &result); err != nil {
			b.Fatal(err)
		}
		fit, refused := len(*result.NodeNames), len(result.FailedAndUnresolvableNodes)
		if fit != want || refused != nodes-want {
			b.Fatalf("fits on %d nodes, not on %d", fit, refused)
		}
	})
}

// BenchmarkPrioritize is one Prioritize call.
func BenchmarkPrioritize(b *testing.B) {
	calls(b, "/prioritize", []string{"fits"}, func(b *testing.B, nodes int, _ string, answer []byte) {
		var scores extenderv1.HostPriorityList
		// Ours leaves out the nodes with the lowest score, which is a fifth of them.
		err := json.Unmarshal(answer, &scores)
		if err != nil || len(scores) < nodes/5 || len(scores) > nodes || scores[0].Score == 0 {
			b.Fatalf("%v, %d of %d nodes scored", err, len(scores), nodes)
		}
	})
}

// BenchmarkFilterJSON is what of Filter is reading the question and writing the answer, over 5,000 nodes. The
// baseline leaves both to encoding/json.
func BenchmarkFilterJSON(b *testing.B) {
	c := baseline.New(5000, 0)
	names := c.Names()
	failed := extenderv1.FailedNodesMap{}
	for _, name := range names {
		failed[name] = "Insufficient GPU memory in the pod's phases"
	}
	for _, test := range []struct {
		pod    string
		fit    []string
		failed extenderv1.FailedNodesMap
	}{{"fits", names, extenderv1.FailedNodesMap{}}, {"refused", []string{}, failed}} {
		result := &extenderv1.ExtenderFilterResult{NodeNames: &test.fit, FailedAndUnresolvableNodes: test.failed}
		ours := handler(always{result: result})
		plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if args := decode(w, r); args != nil {
				_ = json.NewEncoder(w).Encode(result)
			}
		})
		request := body(b, names, newPods[test.pod])
		by := func(h http.Handler) func(b *testing.B) {
			return func(b *testing.B) { measure(b, func() { serve(b, h, "/filter", request) }) }
		}
		beside(b, fmt.Sprintf("pod=%s/nodes=%d", test.pod, len(names)), by(ours), by(plain))
	}
}

// measure reports, beside the mean, how long 99 calls of 100 take at most.
func measure(b *testing.B, call func()) {
	runtime.GC() // of what it took to get here
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		start := time.Now()
		call()
		if len(took) < cap(took) {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[(len(took)*99-1)/100]), "p99-ns")
}

func body(b *testing.B, names []string, pod *corev1.Pod) []byte {
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func serve(b *testing.B, h http.Handler, path string, body []byte) []byte {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	if w.Code != http.StatusOK {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// extender is ours.
func extender(c *baseline.Cluster) http.Handler {
	book := c.Book()
	f := &filter.Filter{
		Book: book, Gate: discard{}, Recent: filter.NewRecent(16), Metrics: discard{},
		Queue: requeue.New(book, nil, time.Now, zap.NewNop()),
	}
	return handler(f)
}

// discard counts nothing and has no gates.
type discard struct{}

func (discard) Refusals() map[string]string { return nil }

func (discard) Refused(string, int) {}
func (discard) Ready() error        { return nil }

// always answers each Filter call with one result.
type always struct {
	server.Filterer
	result *extenderv1.ExtenderFilterResult
}

func (a always) Filter(context.Context, *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	return a.result
}

func handler(f server.Filterer) http.Handler {
	return server.Extender(server.Calls{Readiness: discard{}, Filterer: f}, metrics.New(metrics.Labels{}), zap.NewNop())
}

// peer is the baseline: it adds up all pods on each call.
func peer(c *baseline.Cluster) http.Handler {
	accountant := c.Accountant()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, r *http.Request) {
		args := decode(w, r)
		if args == nil {
			return
		}
		usage, asks := accountant.Sum(), baseline.Asks(args.Pod)
		fit := []string{}
		failed := extenderv1.FailedNodesMap{}
		for _, name := range *args.NodeNames {
			if _, _, ok := accountant.Place(name, usage, asks); ok {
				fit = append(fit, name)
			} else {
				failed[name] = "no device with room"
			}
		}
		result := extenderv1.ExtenderFilterResult{NodeNames: &fit, FailedAndUnresolvableNodes: failed}
		_ = json.NewEncoder(w).Encode(result)
	})
	mux.HandleFunc("POST /prioritize", func(w http.ResponseWriter, r *http.Request) {
		args := decode(w, r)
		if args == nil {
			return
		}
		usage, asks := accountant.Sum(), baseline.Asks(args.Pod)
		var scores extenderv1.HostPriorityList
		for _, name := range *args.NodeNames {
			_, score, _ := accountant.Place(name, usage, asks)
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: int64(score*9) + 1})
		}
		_ = json.NewEncoder(w).Encode(scores)
	})
	return mux
}

func decode(w http.ResponseWriter, r *http.Request) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(r.Body).Decode(args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	return args
}
