package bind

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

// testBinder is a binder with real books and gates before an API server that misbehaves as told.
type testBinder struct {
	*Binder
	t    *testing.T
	api  *api
	book *ledger.Book

	mu       sync.Mutex
	may      error
	released []string // nodes
	seen     []string // bindings, waits and failures
	faulty   string   // what panics, as in seen
}

const gib = 1024

func newBinder(t *testing.T, pods ...*corev1.Pod) *testBinder {
	w := &testBinder{t: t, api: newAPI(t, pods...), book: ledger.New()}
	for _, name := range []string{"n1", "n2"} {
		w.book.SetNode(node(name, 16*gib))
	}
	w.Binder = New(Config{
		Pods: w.api.client(t).CoreV1(), Book: w.book, Gate: gate.New(time.Now, w), Lease: w,
		Recent: filter.NewRecent(8), Requeue: w, Events: w, Metrics: w,
		Now: func() time.Time { return time.Unix(1700000000, 0) }, Timeout: time.Minute, Log: zap.NewNop(),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w.Stop(ctx)
	})
	return w
}

func (w *testBinder) NodeFreed(string) {}

func (w *testBinder) MayBind(context.Context) error { w.mu.Lock(); defer w.mu.Unlock(); return w.may }

func (w *testBinder) lead(may error) { w.mu.Lock(); defer w.mu.Unlock(); w.may = may }

func (w *testBinder) Observe(d ledger.Delta) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.Released {
		w.released = append(w.released, d.Node)
	}
}

func (w *testBinder) Bound(p *podrequest.Request, node string, a device.Allocation) {
	w.saw(fmt.Sprint("bound ", p, " ", node, " ", a[1][0].UUID))
}

func (w *testBinder) GateWaited(_ time.Duration, entered bool) { w.saw(fmt.Sprint("waited ", entered)) }

func (w *testBinder) BindFailed(reason string) { w.saw(reason) }

func (w *testBinder) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faulty != "" && strings.HasPrefix(what, w.faulty) {
		panic("a bug")
	}
	w.seen = append(w.seen, what)
}

// wantSeen fails the test unless exactly this was seen since its last call.
func (w *testBinder) wantSeen(what string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.seen); diff != "" {
		w.t.Errorf("%s: %s", what, diff)
	}
	w.seen = nil
}

// wantErr fails the test unless the error has these words; without any there must be none.
func (w *testBinder) wantErr(err error, words ...string) {
	w.t.Helper()
	if (err == nil) != (len(words) == 0) {
		w.t.Errorf("error %v, want %q", err, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("error %v, want %q in it", err, word)
		}
	}
}

// start has a pod bound to n1 and returns where the result comes.
func (w *testBinder) start(ctx context.Context, pod *corev1.Pod) <-chan error {
	done := make(chan error, 1)
	go func() { done <- w.Bind(ctx, to(pod, "n1")) }()
	return done
}

// queue does the same behind a pod that is inside n1's gate, and returns once the pod waits for its turn.
func (w *testBinder) queue(ctx context.Context, pod *corev1.Pod) <-chan error {
	w.t.Helper()
	w.Gate.Inside("n1", gate.Pod{UID: "slow", Name: "ns/slow"})
	done := w.start(ctx, pod)
	await.Until(w.t, "the pod waits in the gate", func() bool { return w.Gate.Room("n1") == gate.DeepQueue-1 })
	return done
}

// remember has a pod's request found as Filter saw it.
func (w *testBinder) remember(pod *corev1.Pod) {
	w.t.Helper()
	p, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Recent.Put(p)
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
				"nvidia.com/gpu":    resource.MustParse("1"),
				"nvidia.com/gpumem": *resource.NewQuantity(memoryMiB, resource.DecimalSI),
			}}},
		}},
	}
}

func to(pod *corev1.Pod, node string) *extenderv1.ExtenderBindingArgs {
	return &extenderv1.ExtenderBindingArgs{PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: pod.UID, Node: node}
}

// held is the memory booked on a node in MiB.
func (w *testBinder) held(node string) int64 { return w.book.Node(node).Held[0].MemoryMiB }

// watch has the watch show a pod as the API server has it.
func (w *testBinder) watch(pod *corev1.Pod) {
	truth := kube.LedgerPod(pod, phase.PerInit)
	w.book.Observe(truth)
	w.Gate.Observe(pod, truth.Allocation)
}

// wantBooked fails the test unless so many MiB are booked on n1 and n2.
func (w *testBinder) wantBooked(n1, n2 int64) {
	w.t.Helper()
	if w.held("n1") != n1 || w.held("n2") != n2 {
		w.t.Errorf("%d and %d MiB are booked, want %d and %d", w.held("n1"), w.held("n2"), n1, n2)
	}
}

// wantEmpty fails the test unless nothing is booked and all gates are open.
func (w *testBinder) wantEmpty() {
	w.t.Helper()
	w.wantBooked(0, 0)
	if pods, states := w.book.Pods(), w.Gate.States(); len(pods)+len(states) != 0 {
		w.t.Errorf("left behind: %v, gates %+v", pods, states)
	}
}

// The binding is one write, with the pod's UID as precondition and the record in it.
func TestBindIsOneWrite(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	w.remember(pod)
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

// The outcomes of a POST. One that succeeds leaves the pod booked on n1, one that fails leaves nothing.
func TestOutcomes(t *testing.T) {
	bound := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	vanish := func(a *api, w http.ResponseWriter, b *corev1.Binding) { delete(a.pods, "ns/a"); broken(a, w, b) }
	type script []reaction
	for name, test := range map[string]struct {
		pod   func(*corev1.Pod) // as the API server has it
		bind  script
		blind int
		posts int
		err   string // "" for success
	}{
		"carried out":                   {posts: 1},
		"500, then carried out":         {bind: script{answer(500, "try again"), carryOut}, posts: 2},
		"503 and 504, then carried out": {bind: script{answer(503, "down"), answer(504, "slow"), carryOut}, posts: 3},
		"carried out, answer lost":      {bind: script{lost, answer(500, "must not be asked")}, posts: 1},
		"carried out, answer lost, not to be read, and then a refusal": {
			bind: script{lost, answer(403, "not you")}, blind: 1, posts: 2,
		},
		"connection broken, then carried out": {bind: script{broken, carryOut}, posts: 2},
		"conflict that is trouble with the storage": {
			bind: script{
				answer(409, `Operation cannot be fulfilled on pods/binding "a": etcdserver: request timed out`),
				carryOut,
			}, posts: 2,
		},
		"already on this node":    {pod: bound("n1"), posts: 1},
		"already on another node": {pod: bound("n2"), posts: 1, err: "is bound to node n2 already"},
		"conflict": {
			bind: script{answer(409, "pod a has non-empty .spec.schedulingGates")}, posts: 1, err: "schedulingGates",
		},
		"being deleted": {pod: deleted, posts: 1, err: "being deleted"},
		"another pod of that name": {
			pod: func(p *corev1.Pod) { p.UID = "other" }, posts: 1, err: "the pod is gone",
		},
		"forbidden": {bind: script{answer(403, "not you")}, posts: 1, err: "not you"},
		"invalid": {bind: script{answer(422, "no such thing")}, posts: 1,
			err: "no such thing"},
		"unknown, then forbidden: not bound": {
			bind: script{answer(500, "hm"), answer(403, "not you")}, posts: 2, err: "not you",
		},
		"unknown, then gone": {bind: script{vanish}, posts: 1, err: "the pod is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			live := pod.DeepCopy()
			if test.pod != nil {
				test.pod(live)
			}
			w := newBinder(t, live)
			w.remember(pod)
			w.api.bind, w.api.blind = test.bind, test.blind
			err := w.Bind(t.Context(), to(pod, "n1"))
			if got := len(w.api.posts()); got != test.posts {
				t.Errorf("%d POSTs, want %d", got, test.posts)
			}
			if test.err == "" {
				w.wantErr(err)
				w.wantBooked(6000, 0)
				return
			}
			w.wantErr(err, test.err, "ns/a")
			w.wantEmpty()
			if diff := cmp.Diff([]string{"n1"}, w.released); diff != "" {
				t.Errorf("released: %s", diff)
			}
		})
	}
}

// A pod that is bound is bound again, by no second POST: whether the watch has shown it, or its answer was lost.
func TestBindAgain(t *testing.T) {
	for _, seen := range []bool{false, true} {
		pod := gpuPod("a", 6000)
		w := newBinder(t, pod)
		w.wantErr(w.Bind(t.Context(), to(pod, "n1")))
		if seen {
			w.watch(w.api.pod("ns/a"))
		}
		w.wantErr(w.Bind(t.Context(), to(pod, "n1")))
		w.wantErr(w.Bind(t.Context(), to(pod, "n2")), "bound to node n1")
		w.wantBooked(6000, 0)
		if n := len(w.api.posts()); n != 1 {
			t.Errorf("seen %v: %d POSTs", seen, n)
		}
	}
}

// Of two pods of 12000 on 16384 at once, exactly one is bound.
func TestTwoPodsRace(t *testing.T) {
	a, b := gpuPod("a", 12000), gpuPod("b", 12000)
	w := newBinder(t, a, b)
	first, second := w.start(t.Context(), a), w.start(t.Context(), b)
	one, two := <-first, <-second
	if (one == nil) == (two == nil) {
		t.Fatalf("errors %v and %v, want exactly one", one, two)
	}
	w.wantErr(errors.Join(one, two), "Insufficient GPU memory")
	w.wantBooked(12000, 0)
	if n := len(w.api.posts()); n != 1 {
		t.Errorf("%d POSTs", n)
	}
}

// Of two pods of 6000 under a quota of 10000 one is bound, whatever their nodes.
func TestQuotaDecidesAtBind(t *testing.T) {
	a, b := gpuPod("a", 6000), gpuPod("b", 6000)
	w := newBinder(t, a, b)
	w.book.SetQuota(quota(10000))
	w.wantErr(w.Bind(t.Context(), to(a, "n1")))
	err := w.Bind(t.Context(), to(b, "n2"))
	var quota *ledger.QuotaError
	if !errors.As(err, &quota) || quota.Used != 6000 || quota.Asked != 6000 || quota.Limit.Max != 10000 {
		t.Errorf("error %v, want the quota's numbers", err)
	}
	if err != nil && strings.Count(err.Error(), "ns/b") != 1 {
		t.Errorf("error %v, want the pod named once", err)
	}
	w.wantBooked(6000, 0)
}

func quota(most int64) ledger.Quota {
	return ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: most},
	}}
}

// A pod that waits in the gate is booked meanwhile, and not any more when its client goes away.
func TestClientGoesAwayInTheGate(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := w.queue(ctx, pod)
	w.wantBooked(6000, 0)
	cancel(errors.New("client gone"))
	w.wantErr(<-done, "client gone")
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
	w := newBinder(t, pod)
	n := node("n1", 16*gib)
	second := n.Devices[0]
	second.UUID, second.Index = "n1-G1", 1
	n.Devices = append(n.Devices, second)
	w.book.SetNode(n)
	done := w.queue(t.Context(), pod)
	w.wantBooked(6000, 0)
	n.Devices = append([]device.Device(nil), n.Devices...)
	n.Devices[0].Healthy = false
	w.book.SetNode(n)
	w.Gate.Leave("slow")
	w.wantErr(<-done)
	if got, want := w.api.pod("ns/a").Annotations["hami.io/vgpu-devices-allocated"],
		";n1-G1,NVIDIA,6000,0:;"; got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if v := w.book.Node("n1"); v.Held[0].MemoryMiB != 0 || v.Held[1].MemoryMiB != 6000 {
		t.Errorf("booked %v", v.Held)
	}
}

// The device is lost and there is no other: refused, nothing booked.
func TestNodeLostInTheGate(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	done := w.queue(t.Context(), pod)
	w.book.RemoveNode("n1")
	w.book.SetNode(ledger.Node{Name: "n1"})
	w.Gate.Leave("slow")
	w.wantErr(<-done, "No GPU of the requested family")
	if len(w.book.Pods()) != 0 || len(w.Gate.States()) != 0 {
		t.Errorf("left behind: %v, %v", w.book.Pods(), w.Gate.States())
	}
}

// An outcome stays unknown for longer than the client waits: it gets an error, the pod stays booked, a call for the
// same binding joins it, one for another is refused, and the POST is repeated until its outcome is known.
func TestUnknownOutcomeOutlivesItsClient(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	w.api.bind = []reaction{answer(500, "no leader")}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := w.start(ctx, pod)
	await.Until(t, "a POST", func() bool { return len(w.api.posts()) > 0 })
	cancel(errors.New("client gone"))
	w.wantErr(<-done, "not resolved")
	w.wantBooked(6000, 0)
	w.wantErr(w.Bind(t.Context(), to(pod, "n2")), "node n1 is not resolved")
	w.api.mu.Lock()
	w.api.bind = nil
	w.api.mu.Unlock()
	w.wantErr(w.Bind(t.Context(), to(pod, "n1")))
	w.wantBooked(6000, 0)
}

// An extender whose scheduler no longer leads binds nothing, and gives up a binding whose outcome is unknown.
func TestOnlyTheLeaderBinds(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	w.lead(errors.New("the lease is held by another"))
	w.wantErr(w.Bind(t.Context(), to(pod, "n1")), "held by another")
	w.lead(nil)
	w.api.bind = []reaction{func(a *api, rw http.ResponseWriter, b *corev1.Binding) {
		w.lead(errors.New("lost the lease"))
		status(rw, 500, "no leader")
	}}
	w.wantErr(w.Bind(t.Context(), to(pod, "n1")), "lost the lease")
	w.wantEmpty()
}

// A panic ends the attempt, with an error that names the pod. The pod stays booked only if the binding may have been
// written. Another attempt finds out.
func TestPanic(t *testing.T) {
	for name, test := range map[string]struct {
		fault  func(*testBinder)
		posts  int
		booked int64
	}{
		"while it is placed":      {func(w *testBinder) { w.Book = faultyBook{w.Book} }, 0, 0},
		"when its turn has come":  {func(w *testBinder) { w.faulty = "waited" }, 0, 0},
		"when it has been posted": {func(w *testBinder) { w.Pods = faultyPods{w.Pods} }, 1, 6000},
		"when it is bound":        {func(w *testBinder) { w.faulty = "bound" }, 1, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			w := newBinder(t, pod)
			whole := w.Config
			test.fault(w)
			w.wantErr(w.Bind(t.Context(), to(pod, "n1")), "ns/a", "a bug")
			if !slices.Equal(w.seen[len(w.seen)-1:], []string{other}) ||
				strings.Count(strings.Join(w.seen, " "), other) != 1 {
				t.Errorf("seen: %v", w.seen)
			}
			w.wantBooked(test.booked, 0)
			if got := len(w.api.posts()); got != test.posts {
				t.Errorf("%d POSTs, want %d", got, test.posts)
			}
			if test.booked == 0 {
				w.wantEmpty()
			}
			w.Config, w.faulty = whole, ""
			w.wantErr(w.Bind(t.Context(), to(pod, "n1")))
			w.wantBooked(6000, 0)
			if got := len(w.api.posts()); got != 1 {
				t.Errorf("again: %d POSTs", got)
			}
		})
	}
}

type faultyBook struct{ Book }

func (b faultyBook) Assume(p ledger.Pod, _ func(*ledger.View) (device.Allocation, error)) (device.Allocation,
	ledger.Delta, error) {
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
	w := newBinder(t, a, b)
	now := time.Now()
	w.Gate = gate.New(func() time.Time { return now }, w)
	w.wantErr(w.Bind(t.Context(), to(a, "n1")))
	w.wantErr(w.Bind(t.Context(), to(b, "n1")))
	w.api.mu.Lock()
	delete(w.api.pods, "ns/a")
	w.api.mu.Unlock()
	w.dropDeleted(t.Context())
	w.wantBooked(12000, 0) // the watch had no time yet
	now = now.Add(slow)
	w.dropDeleted(t.Context())
	w.wantBooked(6000, 0)
	if w.book.Pod("b-uid") == nil {
		t.Error("pod b is not booked, although the API server has it")
	}
}

// Somebody else binds the pod, here or elsewhere, while it waits in the gate. It is inside the gate of its node alone,
// until kubelet reports on it.
func TestBoundBySomebodyElseInTheGate(t *testing.T) {
	const elsewhere = "bound to node n2 already"
	for name, test := range map[string]struct {
		node    string
		started bool // kubelet has reported on it
		err     []string
		inside  int
	}{
		"here":               {node: "n1", inside: 1},
		"here and started":   {node: "n1", started: true},
		"elsewhere":          {node: "n2", err: []string{elsewhere}, inside: 1},
		"elsewhere, started": {node: "n2", started: true, err: []string{elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gpuPod("a", 6000)
			w := newBinder(t, pod)
			done := w.queue(t.Context(), pod)
			w.api.mu.Lock()
			pod.Spec.NodeName = test.node
			pod.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": ";" + test.node +
				"-G0,NVIDIA,6000,0:;"}
			if test.started {
				pod.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)}
			}
			w.api.mu.Unlock()
			w.watch(w.api.pod("ns/a"))
			w.Gate.Leave("slow")
			w.wantErr(<-done, test.err...)
			states := w.Gate.States()
			if len(states) != test.inside || len(states) > 0 &&
				(states[0].Node != test.node || len(states[0].Inside) != 1) {
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
	w := newBinder(t, pod)
	w.Gate.Inside("n1", gate.Pod{UID: "slow"})
	w.wantErr(w.Bind(t.Context(), to(pod, "n1")))
	if got := w.api.pod("ns/a"); got.Spec.NodeName != "n1" || len(got.Annotations) != 0 {
		t.Errorf("node %q, annotations %v", got.Spec.NodeName, got.Annotations)
	}
}

func TestStop(t *testing.T) {
	pod := gpuPod("a", 6000)
	w := newBinder(t, pod)
	done := w.queue(t.Context(), pod)
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
	w := newBinder(t)
	if err := w.Bind(t.Context(), &extenderv1.ExtenderBindingArgs{}); err == nil {
		t.Error("no error")
	}
	if err := w.Bind(t.Context(), to(gpuPod("a", 1), "n1")); err == nil {
		t.Error("a pod that is not there is bound")
	}
}

// Bindings, waits and failures with their reasons are passed on.
func TestEventsAndMetrics(t *testing.T) {
	pods := map[string]*corev1.Pod{"nowhere": gpuPod("nowhere", 1)}
	var all []*corev1.Pod
	for name, mib := range map[string]int64{"a": 6000, "same": 6000, "large": 90000, "other": 100, "late": 100} {
		pods[name] = gpuPod(name, mib)
		all = append(all, pods[name])
	}
	w := newBinder(t, all...)
	var reasons []string
	bind := func(name string, want ...string) {
		t.Helper()
		_ = w.Bind(t.Context(), to(pods[name], "n1"))
		w.running.Wait() // when its client has gone away, Bind answers while its attempt is still giving up
		w.wantSeen("pod "+name, want...)
		reasons = append(reasons, want...)
	}
	bind("a", "waited true", "bound ns/a n1 n1-G0")
	bind("a") // it is bound already
	bind("same", "waited true", "bound ns/same n1 n1-G0")
	bind("large", noRoom)
	bind("nowhere", gone)

	w.book.SetQuota(quota(12050))
	bind("other", overQuota)
	w.book.RemoveQuota("ns", "q")

	w.Timeout = 10 * time.Millisecond // kubelet has not reported on the first two
	bind("other", "waited false", noTurn)
	w.Timeout = time.Minute

	w.lead(errors.New("another leads"))
	bind("late", notLeading)

	w.Stop(context.Background())
	bind("late") // nothing was begun
	for _, reason := range []string{noRoom, gone, overQuota, noTurn, notLeading} {
		if !slices.Contains(reasons, reason) || !slices.Contains(Reasons(), reason) {
			t.Errorf("%q is not listed", reason)
		}
	}
}
