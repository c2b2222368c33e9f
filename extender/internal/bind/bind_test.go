package bind

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// world is a binder with real books and gates before an API server that misbehaves as told.
type world struct {
	*Binder
	t    *testing.T
	api  *api
	book *ledger.Book

	mu       sync.Mutex
	may      error
	released []string // nodes
}

const gib = 1024

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	w := &world{t: t, api: newAPI(t, pods...), book: ledger.New()}
	for _, name := range []string{"n1", "n2"} {
		w.book.SetNode(node(name, 16*gib))
	}
	w.Binder = New(Config{
		Pods: w.api.client(t).CoreV1(), Book: w.book, Gate: gate.New(time.Now, func(string) {}),
		May:    func(context.Context) error { w.mu.Lock(); defer w.mu.Unlock(); return w.may },
		Recent: filter.NewRecent(8),
		Released: func(d ledger.Delta) {
			if d.Released {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.released = append(w.released, d.Node)
			}
		},
		Now: func() time.Time { return time.Unix(1700000000, 0) }, Timeout: time.Minute, Log: zap.NewNop(),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w.Stop(ctx)
	})
	return w
}

func node(name string, memoryMiB int64) ledger.Node {
	return ledger.Node{Name: name, Devices: []device.Device{{
		UUID: name + "-G0", Family: "NVIDIA", Model: "A", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: memoryMiB, Cores: 100},
	}}}
}

func gpuPod(name string, memoryMiB int64) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid")},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidekick"},
			{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(memoryMiB, resource.DecimalSI),
			}}},
		}},
	}
}

func to(pod *corev1.Pod, node string) *extenderv1.ExtenderBindingArgs {
	return &extenderv1.ExtenderBindingArgs{PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: pod.UID, Node: node}
}

// held is the memory booked on a node in MiB.
func (w *world) held(node string) int64 { return w.book.Node(node).Held[0].MemoryMiB }

// watch shows the binder's side of the watch what the API server has.
func (w *world) watch(pod *corev1.Pod) {
	w.book.Observe(kube.LedgerPod(pod, phase.PerInit))
	w.Gate.Observe(pod)
}

func (w *world) wantEmpty() {
	w.t.Helper()
	if w.held("n1") != 0 || w.held("n2") != 0 || len(w.book.Pods()) != 0 {
		w.t.Errorf("%d and %d MiB are booked", w.held("n1"), w.held("n2"))
	}
	if states := w.Gate.States(); len(states) != 0 {
		w.t.Errorf("gates: %+v", states)
	}
}

// The binding is one write, with the pod's UID as precondition and the record in it.
func TestBindIsOneWrite(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	p, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	w.Recent.Put(p)
	if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Binding{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a-uid", Annotations: map[string]string{
			"hami.io/vgpu-devices-allocated": ";n1-G0,NVIDIA,6000,0:;",
			"hami.io/vgpu-node":              "n1",
			"hami.io/vgpu-time":              "1700000000",
		}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}}
	got := w.api.posts()
	got[0].TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if w.api.reads != 0 {
		t.Errorf("%d reads for a pod that Filter has seen", w.api.reads)
	}
	if w.Recent.Get("a-uid") != nil {
		t.Error("a pod that is bound is still remembered for being bound")
	}
	if w.held("n1") != 6000 {
		t.Errorf("%d MiB booked", w.held("n1"))
	}
	if e := w.book.Pod("a-uid"); !e.Assumed {
		t.Error("the watch has not shown the pod, so it is assumed")
	}
}

// The outcomes of a POST. after is what stays booked on n1.
func TestOutcomes(t *testing.T) {
	bound := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	script := func(steps ...func(*api, http.ResponseWriter, *corev1.Binding)) []func(*api, http.ResponseWriter, *corev1.Binding) {
		return steps
	}
	for name, test := range map[string]struct {
		pod   func(*corev1.Pod) // as the API server has it
		bind  []func(*api, http.ResponseWriter, *corev1.Binding)
		blind int
		posts int
		err   string // "" for success
		after int64
	}{
		"carried out": {posts: 1, after: 6000},
		"500, then carried out": {
			bind: script(answer(500, "try again"), carryOut), posts: 2, after: 6000,
		},
		"503 and 504, then carried out": {
			bind: script(answer(503, "down"), answer(504, "slow"), carryOut), posts: 3, after: 6000,
		},
		"carried out, answer lost": {
			bind: script(lost, answer(500, "must not be asked")), posts: 1, after: 6000,
		},
		"carried out, answer lost, not to be read, and then a refusal": {
			bind: script(lost, answer(403, "not you")), blind: 1, posts: 2, after: 6000,
		},
		"connection broken, then carried out": {
			bind: script(broken, carryOut), posts: 2, after: 6000,
		},
		"conflict that is trouble with the storage": {
			bind: script(answer(409, `Operation cannot be fulfilled on pods/binding "a": etcdserver: request timed out`), carryOut), posts: 2, after: 6000,
		},
		"already on this node": {
			pod: bound("n1"), posts: 1, after: 6000,
		},
		"already on another node": {
			pod: bound("n2"), posts: 1, err: "is bound to node n2 already",
		},
		"conflict": {
			bind: script(answer(409, "pod a has non-empty .spec.schedulingGates")), posts: 1, err: "schedulingGates",
		},
		"being deleted": {
			pod: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, posts: 1, err: "being deleted",
		},
		"another pod of that name": {
			pod: func(p *corev1.Pod) { p.UID = "other" }, posts: 1, err: "the pod is gone",
		},
		"forbidden": {
			bind: script(answer(403, "not you")), posts: 1, err: "not you",
		},
		"invalid": {
			bind: script(answer(422, "no such thing")), posts: 1, err: "no such thing",
		},
		"unknown, then forbidden: not bound": {
			bind: script(answer(500, "hm"), answer(403, "not you")), posts: 2, err: "not you",
		},
		"unknown, then gone": {
			bind:  script(func(a *api, w http.ResponseWriter, b *corev1.Binding) { delete(a.pods, "ns/a"); broken(a, w, b) }),
			posts: 1, err: "the pod is gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			p, err := podrequest.Parse(pod, podrequest.Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			live := pod.DeepCopy()
			if test.pod != nil {
				test.pod(live)
			}
			w := newWorld(t, live)
			w.Recent.Put(p)
			w.api.bind, w.api.blind = test.bind, test.blind
			err = w.Bind(t.Context(), to(pod, "n1"))
			switch {
			case test.err == "" && err != nil:
				t.Fatal(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "ns/a")):
				t.Errorf("error %v, want one with the pod's name and %q", err, test.err)
			}
			if got := len(w.api.posts()); got != test.posts {
				t.Errorf("%d POSTs, want %d", got, test.posts)
			}
			if test.err == "" {
				if w.held("n1") != test.after {
					t.Errorf("%d MiB booked, want %d", w.held("n1"), test.after)
				}
				return
			}
			w.wantEmpty()
			if diff := cmp.Diff([]string{"n1"}, w.released); diff != "" {
				t.Errorf("told of releases: %s", diff)
			}
		})
	}
}

// For a pod that the watch has shown on a node, and for one whose answer the scheduler missed.
func TestBindAgain(t *testing.T) {
	for _, seen := range []bool{false, true} {
		pod := gpuPod("a", 6000)
		w := newWorld(t, pod)
		if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
			t.Fatal(err)
		}
		if seen {
			w.watch(w.api.pod("ns/a"))
		}
		if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
			t.Errorf("seen %v, again on the same node: %v", seen, err)
		}
		if err := w.Bind(t.Context(), to(pod, "n2")); err == nil || !strings.Contains(err.Error(), "bound to node n1") {
			t.Errorf("seen %v, on another node: %v", seen, err)
		}
		if len(w.api.posts()) != 1 || w.held("n1") != 6000 || w.held("n2") != 0 {
			t.Errorf("seen %v: %d POSTs, %d and %d MiB booked", seen, len(w.api.posts()), w.held("n1"), w.held("n2"))
		}
	}
}

// Two pods of 12000 on 16384 at once; exactly one is bound.
func TestTwoPodsRace(t *testing.T) {
	a, b := gpuPod("a", 12000), gpuPod("b", 12000)
	w := newWorld(t, a, b)
	errs := make(chan error, 2)
	for _, pod := range []*corev1.Pod{a, b} {
		go func() { errs <- w.Bind(t.Context(), to(pod, "n1")) }()
	}
	one, two := <-errs, <-errs
	if (one == nil) == (two == nil) {
		t.Fatalf("errors %v and %v, want exactly one", one, two)
	}
	if err := errors.Join(one, two); !strings.Contains(err.Error(), "Insufficient GPU memory") {
		t.Errorf("error %v, want the reason", err)
	}
	if w.held("n1") != 12000 || len(w.api.posts()) != 1 {
		t.Errorf("%d MiB booked, %d POSTs", w.held("n1"), len(w.api.posts()))
	}
}

// Two pods of 6000 under a quota of 10000; one binds, whatever their nodes.
func TestQuotaDecidesAtBind(t *testing.T) {
	a, b := gpuPod("a", 6000), gpuPod("b", 6000)
	w := newWorld(t, a, b)
	w.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 10000}}})
	if err := w.Bind(t.Context(), to(a, "n1")); err != nil {
		t.Fatal(err)
	}
	err := w.Bind(t.Context(), to(b, "n2"))
	var quota *ledger.QuotaError
	if !errors.As(err, &quota) || quota.Used != 6000 || quota.Asked != 6000 || quota.Limit.Max != 10000 {
		t.Errorf("error %v, want the quota's numbers", err)
	}
	if err != nil && strings.Count(err.Error(), "ns/b") != 1 {
		t.Errorf("error %v, want the pod named once", err)
	}
	if w.held("n2") != 0 {
		t.Errorf("%d MiB booked on n2", w.held("n2"))
	}
}

// A pod that waits in the gate is booked meanwhile, and not any more when its client goes away.
func TestClientGoesAwayInTheGate(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	w.Gate.Inside("n1", gate.Pod{UID: "slow", Name: "ns/slow"})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Bind(ctx, to(pod, "n1")) }()
	await.Until(t, "the pod waits in the gate", func() bool { return w.Gate.Room("n1") == gate.DeepQueue-1 })
	if w.held("n1") != 6000 {
		t.Errorf("%d MiB booked while the pod waits", w.held("n1"))
	}
	cancel(errors.New("client gone"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "client gone") {
		t.Errorf("got %v", err)
	}
	await.Until(t, "nothing is booked", func() bool { return w.held("n1") == 0 })
	w.Gate.Leave("slow")
	w.wantEmpty()
	if got := len(w.api.posts()); got != 0 {
		t.Errorf("%d POSTs", got)
	}
}

// While a pod waits in the gate its device breaks: it is placed anew, on the node's other one.
func TestNodeChangesInTheGate(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	n := node("n1", 16*gib)
	second := n.Devices[0]
	second.UUID, second.Index = "n1-G1", 1
	n.Devices = append(n.Devices, second)
	w.book.SetNode(n)
	w.Gate.Inside("n1", gate.Pod{UID: "slow", Name: "ns/slow"})
	done := make(chan error, 1)
	go func() { done <- w.Bind(t.Context(), to(pod, "n1")) }()
	await.Until(t, "the pod waits in the gate", func() bool { return w.held("n1") == 6000 && w.Gate.Room("n1") == gate.DeepQueue-1 })
	n.Devices = append([]device.Device(nil), n.Devices...)
	n.Devices[0].Healthy = false
	w.book.SetNode(n)
	w.Gate.Leave("slow")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := w.api.pod("ns/a").Annotations["hami.io/vgpu-devices-allocated"], ";n1-G1,NVIDIA,6000,0:;"; got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if v := w.book.Node("n1"); v.Held[0].MemoryMiB != 0 || v.Held[1].MemoryMiB != 6000 {
		t.Errorf("booked %v", v.Held)
	}
}

// The device is lost and there is no other: refused, nothing booked.
func TestNodeLostInTheGate(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	w.Gate.Inside("n1", gate.Pod{UID: "slow", Name: "ns/slow"})
	done := make(chan error, 1)
	go func() { done <- w.Bind(t.Context(), to(pod, "n1")) }()
	await.Until(t, "the pod waits in the gate", func() bool { return w.Gate.Room("n1") == gate.DeepQueue-1 })
	w.book.RemoveNode("n1")
	w.book.SetNode(ledger.Node{Name: "n1"})
	w.Gate.Leave("slow")
	if err := <-done; err == nil || !strings.Contains(err.Error(), "No GPU of the requested family") {
		t.Errorf("got %v", err)
	}
	if len(w.book.Pods()) != 0 || len(w.Gate.States()) != 0 {
		t.Errorf("left behind: %v, %v", w.book.Pods(), w.Gate.States())
	}
}

// An outcome stays unknown for longer than the client waits: it gets an error, the pod stays booked, the
// same binding is joined and another refused, and the question goes on until it is answered.
func TestUnknownOutcomeOutlivesItsClient(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	w.api.bind = []func(*api, http.ResponseWriter, *corev1.Binding){answer(500, "no leader")}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Bind(ctx, to(pod, "n1")) }()
	await.Until(t, "a POST", func() bool { return len(w.api.posts()) > 0 })
	cancel(errors.New("client gone"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "not resolved") {
		t.Errorf("got %v", err)
	}
	if w.held("n1") != 6000 {
		t.Errorf("%d MiB booked while nobody knows", w.held("n1"))
	}
	if err := w.Bind(t.Context(), to(pod, "n2")); err == nil || !strings.Contains(err.Error(), "node n1 is not resolved") {
		t.Errorf("another node: %v", err)
	}
	w.api.mu.Lock()
	w.api.bind = nil
	w.api.mu.Unlock()
	if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
		t.Errorf("joined: %v", err)
	}
	if w.held("n1") != 6000 || w.held("n2") != 0 {
		t.Errorf("booked %d and %d", w.held("n1"), w.held("n2"))
	}
}

// An extender whose scheduler no longer leads binds nothing, and gives up what it does not know.
func TestOnlyTheLeaderBinds(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	w.may = errors.New("the lease is held by another")
	if err := w.Bind(t.Context(), to(pod, "n1")); err == nil || !strings.Contains(err.Error(), "held by another") {
		t.Errorf("got %v", err)
	}
	w.may = nil
	w.api.bind = []func(*api, http.ResponseWriter, *corev1.Binding){func(a *api, rw http.ResponseWriter, b *corev1.Binding) {
		w.mu.Lock()
		w.may = errors.New("lost the lease")
		w.mu.Unlock()
		status(rw, 500, "no leader")
	}}
	if err := w.Bind(t.Context(), to(pod, "n1")); err == nil || !strings.Contains(err.Error(), "lost the lease") {
		t.Errorf("got %v", err)
	}
	w.wantEmpty()
}

// A panic ends the attempt, with an error that names the pod. What is booked is taken back, unless the binding may have
// been written. Another attempt finds out.
func TestPanic(t *testing.T) {
	for name, test := range map[string]struct {
		fault  func(*Config)
		posts  int
		booked int64
	}{
		"while it is placed":      {func(c *Config) { c.Book = faultyBook{c.Book} }, 0, 0},
		"when its turn has come":  {func(c *Config) { c.Waited = func(time.Duration, bool) { panic("a bug") } }, 0, 0},
		"when it has been posted": {func(c *Config) { c.Pods = faultyPods{c.Pods} }, 1, 6000},
		"when it is bound":        {func(c *Config) { c.Bound = func(*podrequest.Request, string, device.Allocation) { panic("a bug") } }, 1, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			w := newWorld(t, pod)
			var failed []string
			w.Failed = func(reason string) { failed = append(failed, reason) }
			whole := w.Config
			test.fault(&w.Config)
			if err := w.Bind(t.Context(), to(pod, "n1")); err == nil || !strings.Contains(err.Error(), "ns/a") || !strings.Contains(err.Error(), "a bug") {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff([]string{other}, failed); diff != "" {
				t.Errorf("reasons: %s", diff)
			}
			if got := len(w.api.posts()); got != test.posts || w.held("n1") != test.booked {
				t.Errorf("%d POSTs and %d MiB booked, want %d and %d", got, w.held("n1"), test.posts, test.booked)
			}
			if test.booked == 0 {
				w.wantEmpty()
			}
			w.Config = whole
			if err := w.Bind(t.Context(), to(pod, "n1")); err != nil || w.held("n1") != 6000 || len(w.api.posts()) != 1 {
				t.Errorf("again: %v, %d MiB booked, %d POSTs", err, w.held("n1"), len(w.api.posts()))
			}
		})
	}
}

type faultyBook struct{ Book }

func (b faultyBook) Assume(p ledger.Pod, _ func(*ledger.View) (device.Allocation, error)) (device.Allocation, ledger.Delta, error) {
	return b.Book.Assume(p, func(*ledger.View) (device.Allocation, error) { panic("a bug") })
}

type faultyPods struct{ corev1client.PodsGetter }

func (f faultyPods) Pods(namespace string) corev1client.PodInterface {
	return faultyPod{f.PodsGetter.Pods(namespace)}
}

type faultyPod struct{ corev1client.PodInterface }

func (f faultyPod) Bind(ctx context.Context, b *corev1.Binding, o metav1.CreateOptions) error {
	panic(fmt.Sprint("a bug after ", f.PodInterface.Bind(ctx, b, o)))
}

// The watch was down while the pod was bound and deleted: it never shows it.
func TestDeletedBeforeTheWatchShowsIt(t *testing.T) {
	a, b := gpuPod("a", 6000), gpuPod("b", 6000)
	w := newWorld(t, a, b)
	now := time.Now()
	w.Gate = gate.New(func() time.Time { return now }, func(string) {})
	for _, pod := range []*corev1.Pod{a, b} {
		if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
			t.Fatal(err)
		}
	}
	w.api.mu.Lock()
	delete(w.api.pods, "ns/a")
	w.api.mu.Unlock()
	w.settle(t.Context())
	if w.held("n1") != 12000 {
		t.Errorf("%d MiB booked: the watch had no time yet", w.held("n1"))
	}
	now = now.Add(slow)
	w.settle(t.Context())
	if w.held("n1") != 6000 || w.book.Pod("b-uid") == nil {
		t.Errorf("%d MiB booked, want those of b, which is there", w.held("n1"))
	}
}

// Somebody else binds the pod, here or elsewhere, while it waits in the gate: where it is, it is inside until
// kubelet reports on it, and nowhere else.
func TestBoundBySomebodyElseInTheGate(t *testing.T) {
	for name, test := range map[string]struct {
		node    string
		started bool // kubelet has reported on it
		err     string
		inside  int
	}{
		"here":               {node: "n1", inside: 1},
		"here and started":   {node: "n1", started: true},
		"elsewhere":          {node: "n2", err: "bound to node n2 already", inside: 1},
		"elsewhere, started": {node: "n2", started: true, err: "bound to node n2 already"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			w := newWorld(t, pod)
			w.Gate.Inside("n1", gate.Pod{UID: "slow"})
			done := make(chan error, 1)
			go func() { done <- w.Bind(t.Context(), to(pod, "n1")) }()
			await.Until(t, "the pod waits in the gate", func() bool { return w.Gate.Room("n1") == gate.DeepQueue-1 })
			w.api.mu.Lock()
			pod.Spec.NodeName = test.node
			pod.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": ";" + test.node + "-G0,NVIDIA,6000,0:;"}
			if test.started {
				pod.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)}
			}
			w.api.mu.Unlock()
			w.watch(w.api.pod("ns/a"))
			w.Gate.Leave("slow")
			err := <-done
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			states := w.Gate.States()
			if len(states) != test.inside || len(states) > 0 && (states[0].Node != test.node || len(states[0].Inside) != 1) {
				t.Errorf("gates %+v", states)
			}
			w.Gate.Leave("a-uid")
			if states := w.Gate.States(); len(states) != 0 {
				t.Errorf("gates that nothing opens: %+v", states)
			}
		})
	}
}

// A pod without devices is bound plainly: no books, no gate, no annotations.
func TestPodWithoutDevices(t *testing.T) {
	pod := gpuPod("a", 0)
	pod.Spec.Containers[1].Resources = corev1.ResourceRequirements{}
	w := newWorld(t, pod)
	w.Gate.Inside("n1", gate.Pod{UID: "slow"})
	if err := w.Bind(t.Context(), to(pod, "n1")); err != nil {
		t.Fatal(err)
	}
	if got := w.api.pod("ns/a"); got.Spec.NodeName != "n1" || len(got.Annotations) != 0 {
		t.Errorf("node %q, annotations %v", got.Spec.NodeName, got.Annotations)
	}
}

func TestStop(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newWorld(t, pod)
	w.Gate.Inside("n1", gate.Pod{UID: "slow"})
	done := make(chan error, 1)
	go func() { done <- w.Bind(t.Context(), to(pod, "n1")) }()
	await.Until(t, "the pod waits in the gate", func() bool { return w.Gate.Room("n1") == gate.DeepQueue-1 })
	w.Stop(t.Context())
	if err := <-done; !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
	if err := w.Bind(t.Context(), to(pod, "n1")); !errors.Is(err, errStopped) {
		t.Errorf("after the end: %v", err)
	}
	w.Gate.Leave("slow")
	w.wantEmpty()
}

func TestBadArguments(t *testing.T) {
	w := newWorld(t)
	if err := w.Bind(t.Context(), &extenderv1.ExtenderBindingArgs{}); err == nil {
		t.Error("no error")
	}
	if err := w.Bind(t.Context(), to(gpuPod("a", 1), "n1")); err == nil {
		t.Error("a pod that is not there is bound")
	}
}
