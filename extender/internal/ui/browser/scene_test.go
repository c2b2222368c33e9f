//go:build page

package browser

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// scene is books, what else the page shows, and a server of the page.
type scene struct {
	book   *ledger.Book
	server *httptest.Server

	mu               sync.Mutex
	gates            []gate.State
	unready, standby error
	down             bool        // the server answers 503
	answers          map[int]int // how many of state.json, by status
}

func newScene(t *testing.T) *scene {
	s := &scene{book: ledger.New(), answers: map[int]int{}}
	mux := http.NewServeMux()
	ui.Handle(mux, ui.Source{Book: s.book, Release: phase.PerInit, Feed: s, Readiness: s, Lease: s, Gates: s,
		Requeue: s})
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &statusWriter{ResponseWriter: w, code: 200}
		if locked(s, func() bool { return s.down }) {
			http.Error(counted, "shutting down", http.StatusServiceUnavailable)
		} else {
			mux.ServeHTTP(counted, r)
		}
		if r.URL.Path == "/ui/state.json" {
			s.set(func() { s.answers[counted.code]++ })
		}
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *scene) Seen() uint64         { return 0 }
func (s *scene) Waiting() int         { return 0 }
func (s *scene) Ready() error         { return locked(s, func() error { return s.unready }) }
func (s *scene) Standby() error       { return locked(s, func() error { return s.standby }) }
func (s *scene) States() []gate.State { return locked(s, func() []gate.State { return s.gates }) }

type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (s *scene) url() string { return s.server.URL + "/ui/" }

func (s *scene) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func locked[T any](s *scene, get func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return get()
}

// node tells of a node with cards of so many MiB each.
func (s *scene) node(name string, cards ...int64) {
	n := ledger.Node{Name: name}
	for i, mib := range cards {
		n.Devices = append(n.Devices, device.Device{
			UUID: uuid(name, i), Index: i, Family: "NVIDIA", Model: models[mib/1024], Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: mib, Cores: 100},
		})
	}
	s.book.SetNode(n)
}

// models are cards by their GiB.
var models = map[int64]string{24: "NVIDIA A10", 40: "NVIDIA A100-SXM4-40GB", 80: "NVIDIA H100 80GB HBM3"}

func uuid(node string, i int) string { return fmt.Sprintf("GPU-%s-%04d", node, i) }

// container is one container of a pod, on the cards of these indices.
type container struct {
	class phase.Class
	mib   int64
	cores int64
	cards []int
}

func initc(mib int64, cards ...int) container   { return container{phase.Init, mib, 0, cards} }
func sidecar(mib int64, cards ...int) container { return container{phase.Sidecar, mib, 0, cards} }
func app(mib int64, cards ...int) container     { return container{phase.App, mib, 0, cards} }
func (c container) with(cores int64) container  { c.cores = cores; return c }

// pod is what the books are told of a pod; first is the first phase that remains.
func pod(namespace, name, node string, first int, containers ...container) ledger.Pod {
	p := ledger.Pod{UID: namespace + "-" + name, Namespace: namespace, Name: name, Node: node, First: first}
	for _, c := range containers {
		p.Classes = append(p.Classes, c.class)
		var shares []device.Share
		for _, i := range c.cards {
			shares = append(shares, device.Share{UUID: uuid(node, i), Family: "NVIDIA",
				Amount: device.Amount{Slots: 1, MemoryMiB: c.mib, Cores: c.cores}})
		}
		p.Allocation = append(p.Allocation, shares)
	}
	return p
}

// assume books a pod as a bind does, before the watch shows it.
func (s *scene) assume(t *testing.T, p ledger.Pod) {
	t.Helper()
	a := p.Allocation
	p.Allocation = nil
	if _, _, err := s.book.Assume(p, func(*ledger.View) (device.Allocation, error) { return a, nil }); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) quota(namespace, name, resource string, dimension ledger.Dimension, most int64) {
	s.book.SetQuota(ledger.Quota{Namespace: namespace, Name: name, Limits: []ledger.Limit{
		{Resource: resource, Family: "NVIDIA", Dimension: dimension, Max: most},
	}})
}

// cluster is a small cluster in which everything that the page can show happens.
func cluster(t *testing.T) *scene {
	s := newScene(t)
	const gi = 1024
	s.node("gpu-a", 40*gi, 40*gi, 40*gi, 40*gi)
	s.node("gpu-b", 24*gi, 24*gi)
	s.node("gpu-c", 80*gi, 80*gi)

	tell := func(p ledger.Pod) { s.book.Observe(p) }
	tell(pod("speech", "serving-7c9f", "gpu-a", 0, initc(30*gi, 0), sidecar(2*gi, 0), initc(8*gi, 0),
		app(18*gi, 0).with(40)))
	tell(pod("speech", "serving-x2lk", "gpu-a", 1, initc(30*gi, 1), sidecar(2*gi, 1), initc(14*gi, 1),
		app(10*gi, 1).with(40)))
	tell(pod("vision", "train-0", "gpu-a", 2, initc(12*gi, 2), initc(24*gi, 2, 3), app(20*gi, 2, 3).with(50)))
	tell(pod("vision", "labeller", "gpu-a", 0, sidecar(2*gi, 3), app(6*gi, 3).with(10)))
	// Its init containers run again, and their memory has gone to another.
	tell(pod("batch", "rerun-q8", "gpu-b", 0, initc(20*gi, 0), app(6*gi, 0)))
	tell(pod("batch", "took-the-room", "gpu-b", 0, app(10*gi, 0)))
	s.assume(t, pod("batch", "nightly-2718", "gpu-b", 0, initc(4*gi, 1), app(12*gi, 1)))
	tell(pod("research", "whole-card", "gpu-c", 0, app(80*gi, 1).with(100)))

	n := ledger.Node{Name: "gpu-b", Devices: append([]device.Device(nil), s.book.Node("gpu-b").Devices...)}
	n.Devices[1].Cordoned = true
	s.book.SetNode(n)
	n = ledger.Node{Name: "gpu-c", Devices: append([]device.Device(nil), s.book.Node("gpu-c").Devices...)}
	n.Devices[0].Healthy = false
	s.book.SetNode(n)

	s.quota("speech", "gpu", "limits.nvidia.com/gpumem", ledger.Memory, 64*gi)
	s.quota("vision", "gpu", "limits.nvidia.com/gpumem", ledger.Memory, 48*gi)
	s.quota("vision", "gpu-cores", "limits.nvidia.com/gpucores", ledger.Cores, 200)
	s.quota("batch", "gpu", "limits.nvidia.com/gpumem", ledger.Memory, 40*gi)
	s.gates = []gate.State{{Node: "gpu-b", Inside: []gate.Pod{{Name: "batch/nightly-2718"}}, Waiting: 2,
		Since: time.Now().Add(-4 * time.Second)}}
	return s
}

// large is 5,000 nodes with 8 cards and 8 pods each.
func large(t *testing.T) *scene {
	s := newScene(t)
	for i := range 5000 {
		name := fmt.Sprintf("node-%04d", i)
		s.node(name, 81920, 81920, 81920, 81920, 81920, 81920, 81920, 81920)
		for j := range 8 {
			s.book.Observe(pod("team-"+fmt.Sprint(i%40), fmt.Sprintf("worker-%d-%d", i, j), name, j%3, initc(40960, j),
				sidecar(1024, j), initc(4096, j), app(20480, j)))
		}
	}
	return s
}

var errStandby = errors.New("lease phasegpu-system/phasegpu-scheduler is held by another_1, not by the scheduler beside this extender")
