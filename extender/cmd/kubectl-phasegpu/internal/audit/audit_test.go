package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// objects are what the API server has in a test.
type objects struct {
	nodes  []*corev1.Node
	quotas []*corev1.ResourceQuota
	pods   []*corev1.Pod
}

// node has two cards, G0 and G1, of 24576 MiB.
func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"hami.io/node-nvidia-register": `[` +
			`{"id":"G0","count":10,"devmem":24576,"devcore":100,"type":"L4","health":true},` +
			`{"id":"G1","index":1,"count":10,"devmem":24576,"devcore":100,"type":"L4","health":true}]`}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}},
	}
}

func quota(mib string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"limits.nvidia.com/gpumem": resource.MustParse(mib)}},
	}
}

// pod has an init container and an app, and is of a version. Without a node it has no record.
func trainer(name, node string, version int, record string) *corev1.Pod {
	gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"),
		"nvidia.com/gpumem": resource.MustParse("1")}}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name + "-uid"),
			ResourceVersion: fmt.Sprint(version)},
		Spec: corev1.PodSpec{
			NodeName:       node,
			InitContainers: []corev1.Container{{Name: "load", Resources: gpu}},
			Containers:     []corev1.Container{{Name: "serve", Resources: gpu}},
		},
	}
	if record != "" {
		p.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": record}
	}
	return p
}

// running has the app run.
func running(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "serve",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func ended(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = corev1.PodSucceeded
	return p
}

const onG0 = "G0,NVIDIA,16000,0:;G0,NVIDIA,5000,30:;"

func usual() objects {
	return objects{
		nodes:  []*corev1.Node{node("n1"), node("n2")},
		quotas: []*corev1.ResourceQuota{quota("40000")},
		pods: []*corev1.Pod{
			trainer("a", "n1", 11, onG0),
			running(trainer("b", "n1", 12, onG0)),
			trainer("waiting", "", 13, ""),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "web", UID: "web-uid"},
				Spec: corev1.PodSpec{NodeName: "n1"}},
		},
	}
}

func (w objects) state() *State {
	s := NewState(phase.PerInit)
	for _, n := range w.nodes {
		s.AddNode(n)
	}
	for _, q := range w.quotas {
		s.AddQuota(q)
	}
	for _, p := range w.pods {
		s.AddPod(p)
	}
	return s
}

// extender returns the page of an extender that was told of a objects, and did what book does.
func (w objects) extender(t *testing.T, book func(*ledger.Book)) *ui.Ledger {
	t.Helper()
	b, seen := ledger.New(), uint64(0)
	for _, n := range w.nodes {
		b.SetNode(kube.Node(n))
	}
	for _, q := range w.quotas {
		truth, err := kube.Quota(q)
		if err != nil {
			t.Fatal(err)
		}
		b.SetQuota(truth)
	}
	for _, p := range w.pods {
		if truth := kube.LedgerPod(p, phase.PerInit); truth.Node != "" && kube.Tracked(p) {
			b.Observe(truth)
			seen = max(seen, truth.Version)
		}
	}
	if book != nil {
		book(b)
	}
	l := ui.Read(seen, phase.PerInit, b, nil)
	return &l
}

func assume(t *testing.T, p *corev1.Pod, node string, shares ...device.Share) func(*ledger.Book) {
	return func(b *ledger.Book) {
		truth := kube.LedgerPod(p, phase.PerInit)
		truth.Node = node
		if _, _, err := b.Assume(truth, func(*ledger.View) (device.Allocation,
			error) {
			return device.Allocation{nil, shares}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// summary is a line in short: its title, the MiB that the books have and should have, and the pods with them.
func summary(lines []Line) (short []string) {
	for i := range lines {
		l := &lines[i]
		text := l.title()
		if l.Books != nil {
			text += fmt.Sprintf(" %d/%d", l.Books.MemoryMiB, l.Recomputed.MemoryMiB)
		}
		for _, c := range l.Pods {
			text += "; " + c.Name
			if c.Books != nil {
				text += fmt.Sprintf(" %d/%d", c.Books.MemoryMiB, c.Recomputed.MemoryMiB)
			}
			text += " " + c.Why
		}
		for _, other := range l.Differs {
			text += "; " + other
		}
		short = append(short, text)
	}
	return short
}

// settled compares books with a state that holds still.
func settled(t *testing.T, s *State, l *ui.Ledger) Books {
	t.Helper()
	b, _, err := Compare(t.Context(), Source{
		Read: func(context.Context) (*ui.Ledger, error) { return l, nil },
		List: func(context.Context, phase.Release) (*State, error) { return s, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDrift(t *testing.T) {
	usual := usual()
	change := func(f func(*objects)) objects {
		w := usual
		w.nodes, w.quotas, w.pods = slices.Clone(w.nodes), slices.Clone(w.quotas), slices.Clone(w.pods)
		f(&w)
		return w
	}
	const quotaLine = "quota ml/team, limits.nvidia.com/gpumem; "
	without := change(func(w *objects) { w.pods = slices.Delete(w.pods, 0, 1) })
	// charged are the lines on which a pod is charged wrongly: a device and, with its amounts, namespace and quota.
	charged := func(device string, books, must int, cause string) []string {
		return []string{
			device + "; " + cause,
			fmt.Sprintf("namespace ml, NVIDIA %d/%d; %s", books, must, cause),
			fmt.Sprintf("%s%s; %d used in the books, %d by its pods", quotaLine, cause, books, must),
		}
	}
	// everywhere is charged when nothing else is on the device.
	everywhere := func(device string, books, must int, cause string) []string {
		return charged(fmt.Sprintf("%s %d/%d", device, books, must), books, must, cause)
	}
	for _, c := range []struct {
		name      string
		state     objects            // what the API server has
		seen      objects            // what the extender has seen
		book      func(*ledger.Book) // and did besides
		edit      func(l *ui.Ledger) // and what its page shows instead
		drift     []string
		unsettled []string
	}{
		{"equal", usual, usual, nil, nil, nil, nil},
		{"a pod too many", without, usual, nil, nil,
			everywhere("device G0 on node n1", 21000, 5000, "a 16000/0 the API server has no such pod"), nil},
		{"a pod too few", usual, without, nil, nil,
			everywhere("device G0 on node n1", 5000, 21000, "a 0/16000 the books do not have it"), nil},
		{"books that are behind", change(func(w *objects) { w.pods[0] = trainer("a", "n1", 99, onG0) }), without, nil,
			nil, nil, everywhere("device G0 on node n1", 5000, 21000, "a 0/16000 the books do not have it")},
		{"books that know enough although they are behind",
			change(func(w *objects) { w.pods[0] = trainer("a", "n1", 99, onG0) }), usual, nil, nil, nil, nil},
		{"an init container that the books think is still to run",
			change(func(w *objects) { w.pods[0] = running(w.pods[0]) }), usual, nil, nil, everywhere("device G0 on "+
				"node n1", 21000, 10000, "a 16000/5000 charged from phase load on, its status says steady"), nil},
		{"an ended pod", change(func(w *objects) { w.pods[0] = ended(w.pods[0]) }), usual, nil, nil,
			everywhere("device G0 on node n1", 21000, 5000, "a 16000/0 it has ended"), nil},
		{"another card of the same node: the namespace is right", change(func(w *objects) {
			w.pods[0] = trainer("a", "n1", 11, "G1,NVIDIA,16000,0:;G0,NVIDIA,5000,30:;")
		}), usual, nil, nil, []string{
			"device G0 on node n1 21000/10000; a 16000/5000 its record says otherwise",
			"device G1 on node n1 0/16000; a 0/16000 its record says otherwise",
		}, nil},
		{"two pods with each other's amounts: the sums are right", usual, usual, nil, func(l *ui.Ledger) {
			a, b := &l.Nodes[0].Pods[0], &l.Nodes[0].Pods[1]
			a.Devices, b.Devices = b.Devices, a.Devices
		}, []string{
			"device G0 on node n1 21000/21000; a 5000/16000 its record says otherwise; b 16000/5000 its record says " +
				"otherwise",
		}, nil},
		{"another node", change(func(w *objects) { w.pods[0] = trainer("a", "n2", 11, onG0) }), usual, nil, nil,
			[]string{
				"device G0 on node n1 21000/5000; a 16000/0 on node n1 in the books, on n2 at the API server",
				"device G0 on node n2 0/16000; a 0/16000 on node n1 in the books, on n2 at the API server",
			}, nil},
		{"sums that are of no pod", usual, usual, nil, func(l *ui.Ledger) {
			l.Nodes[0].Devices[1].Reserved.MemoryMiB = 700
			l.Namespaces[0].Used[0].Cores = 0
			l.Namespaces[0].Quotas[0].Used++
		}, []string{
			"device G1 on node n1 700/0; differs from the sum of the books' own pods by +700 MiB",
			"namespace ml, NVIDIA 21000/21000; differs from the sum of the books' own pods by -60 % cores",
			quotaLine + "differs from the sum of the books' own pods by +1",
		}, nil},
		{"sums of books that changed while they were read say nothing", usual, usual, nil, func(l *ui.Ledger) {
			l.Consistent, l.Nodes[0].Devices[1].Reserved.MemoryMiB = false, 700
		}, nil, []string{"device G1 on node n1 700/0; differs from the sum of the books' own pods by +700 MiB"}},
		{"devices and nodes", change(func(w *objects) {
			w.nodes[0] = node("n1")
			w.nodes[0].Annotations["hami.io/device-cordon"] = "G1"
			w.nodes[1] = node("n3")
		}), usual, nil, func(l *ui.Ledger) {
			l.Nodes[0].Devices[0].Capacity.MemoryMiB, l.Nodes[0].Devices[0].Exclusive, l.Nodes[0].Devices[1].Healthy = 8000, true, false
		}, []string{
			"node n2; the books know it, the API server has no such node",
			"node n3; the books do not know it, the API server has it",
			"device G0 on node n1 21000/21000; capacity 10 slots, 8000 MiB, 100% cores in the books, 10 slots, 24576 " +
				"MiB, 100% cores in the inventory; exclusive in the books, and shared by their own pods",
			"device G1 on node n1 0/0; unhealthy in the books, healthy on the node; not cordoned in the books, " +
				"cordoned on the node",
			"device G0 on node n2 0/0; the books list it, the node's inventory does not",
			"device G1 on node n2 0/0; the books list it, the node's inventory does not",
			"device G0 on node n3 0/0; the books do not list it, the node's inventory does",
			"device G1 on node n3 0/0; the books do not list it, the node's inventory does",
		}, nil},
		{"a node that takes no pods for no reason", usual, usual, nil,
			func(l *ui.Ledger) { l.Nodes[1].Unreadable = "it says so" }, []string{
				"node n2; takes no new pods in the books, and can be read",
			}, nil},
		{"exclusive for nobody", usual, usual, nil, func(l *ui.Ledger) { l.Nodes[0].Devices[0].Exclusive = true },
			[]string{
				"device G0 on node n1 21000/21000; exclusive in the books, and shared by their own pods",
			}, nil},
		{"quotas", change(func(w *objects) { w.quotas[0] = quota("30000") }), usual, nil, func(l *ui.Ledger) {
			l.Namespaces = append(l.Namespaces,
				ui.Namespace{Name: "old",
					Quotas: []ui.Quota{{Quota: "q", Resource: "limits.nvidia.com/gpucores", Family: "NVIDIA", Max: 5}}})
		}, []string{
			quotaLine + "limited to 40000 in the books, to 30000 at the API server",
			"quota old/q, limits.nvidia.com/gpucores; limited to 5 in the books, the API server has no such limit",
		}, nil},
		{"a quota that the books do not have", usual, change(func(w *objects) { w.quotas = nil }), nil, nil, []string{
			quotaLine + "not in the books, the API server limits it to 40000",
		}, nil},
		{"a record that cannot be read", change(func(w *objects) { w.pods[0] = trainer("a", "n1", 11, "G0,abc,;") }),
			usual, nil, nil, append([]string{"node n1; a its record cannot be read"},
				everywhere("device G0 on node n1", 21000, 5000, "a 16000/0 its record cannot be read")...), nil},
		{"a card that the node does not list", change(func(w *objects) {
			w.pods[0] = trainer("a", "n1", 11, "G9,NVIDIA,16000,0:;G0,NVIDIA,5000,30:;")
		}), change(func(w *objects) {
			w.pods[0] = trainer("a", "n1", 11,
				"G9,NVIDIA,9000,0:;G0,NVIDIA,5000,30:;")
		}), nil, nil, charged("device G9 on node n1 9000/16000", 14000, 21000, "a 9000/16000 its record says otherwise"), nil},
		{"an assumption for a pod that is gone", usual, usual,
			assume(t, trainer("gone", "", 14, ""), "n1",
				device.Share{UUID: "G1", Family: "NVIDIA",
					Amount: device.Amount{Slots: 1, MemoryMiB: 300,
						Cores: 100}}), nil, charged("device G1 on node n1 300/0", 21300, 21000, "gone 300/0 assumed, "+
				"and the API server has no such pod"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.seen.extender(t, c.book)
			if c.edit != nil {
				c.edit(l)
			}
			b := settled(t, c.state.state(), l)
			if diff := cmp.Diff(c.drift, summary(b.Drift)); diff != "" {
				t.Errorf("drift: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.unsettled, summary(b.Unsettled)); diff != "" {
				t.Errorf("unsettled: -want +got\n%s", diff)
			}
		})
	}
}

// What is booked for a pod whose Binding is on its way is in no recomputation, and no drift.
func TestAssumed(t *testing.T) {
	w := usual()
	exclusive := device.Share{UUID: "G1", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: 300, Cores: 100}}
	l := w.extender(t, assume(t, w.pods[2], "n1", exclusive))
	if d := l.Nodes[0].Devices[1]; !d.Exclusive || d.Reserved.MemoryMiB != 300 ||
		l.Namespaces[0].Quotas[0].Used != 21300 {
		t.Fatalf("the page does not show the assumption: %+v", l)
	}
	b := settled(t, w.state(), l)
	if len(b.Drift)+len(b.Unsettled) > 0 {
		t.Errorf("it drifts: %q %q", summary(b.Drift), summary(b.Unsettled))
	}
	want := []Assumed{{"ml", "waiting", "n1",
		[]ui.Held{{UUID: "G1", Family: "NVIDIA", Reserved: ui.Amount{Slots: 1, MemoryMiB: 300, Cores: 100},
			Exclusive: true}}}}
	if diff := cmp.Diff(want, b.Assumed); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if want := (Counts{Nodes: 2, Devices: 4, Pods: 2, Namespaces: 1, Quotas: 1}); b.Compared != want {
		t.Errorf("compared %+v, want %+v", b.Compared, want)
	}

	// The API server has it bound by now: what is assumed is what it is charged.
	w.pods = slices.Clone(w.pods)
	w.pods[2] = trainer("waiting", "n1", 14, ";G1,NVIDIA,300,100:;")
	if b := settled(t, w.state(), l); len(b.Drift)+len(b.Unsettled)+len(b.Assumed) > 0 {
		t.Errorf("once bound it drifts: %q %q, assumed %v", summary(b.Drift), summary(b.Unsettled), b.Assumed)
	}
}

// script answers with one objects after the other, the last one for good.
type script struct {
	pages  []*ui.Ledger
	states []*State
	err    error
	looks  int
}

func next[T any](all *[]T) T {
	first := (*all)[0]
	if len(*all) > 1 {
		*all = (*all)[1:]
	}
	return first
}

func (s *script) source(pauses int) Source {
	return Source{
		Read: func(context.Context) (*ui.Ledger, error) { s.looks++; return next(&s.pages), s.err },
		List: func(_ context.Context, r phase.Release) (*State, error) {
			if r != phase.PerInit {
				return nil, fmt.Errorf("asked for release %v", r)
			}
			return next(&s.states), s.err
		},
		Pauses: make([]time.Duration, pauses),
	}
}

// A cluster that changes meanwhile gives no drift, and drift is seen all the same.
func TestMoving(t *testing.T) {
	before, later := usual(), usual()
	later.pods = slices.Clone(later.pods)
	later.pods[0] = running(trainer("a", "n1", 21, onG0))
	again := usual()
	again.pods = slices.Clone(again.pods)
	again.pods[0] = ended(trainer("a", "n1", 20, onG0))
	page1, page2 := before.extender(t, nil), later.extender(t, nil)
	state1, state2, state3 := before.state(), later.state(), again.state()
	told := *page1
	told.Seen = 50
	other := usual() // pods that come and go, so that the namespace's line is never right
	other.pods = append(slices.Clone(other.pods), trainer("c", "n2", 20, onG0))
	another := usual()
	another.pods = append(slices.Clone(other.pods), trainer("d", "n2", 20, onG0))
	stateC, stateCD, pageC := other.state(), another.state(), other.extender(t, nil)
	leak := before.extender(t, nil)
	leak.Nodes[0].Devices[1].Reserved.MemoryMiB = 700

	small := another.extender(t, nil)
	small.Nodes[0].Devices[1].Capacity.MemoryMiB, small.Nodes[1].Devices[1].Capacity.MemoryMiB = 8000, 8000
	another.nodes = []*corev1.Node{node("n1"), node("n2")}
	another.nodes[0].Annotations["hami.io/device-cordon"] = "G1"
	cordoned := another.state()

	for _, c := range []struct {
		name             string
		pages            []*ui.Ledger
		states           []*State
		looks            int
		drift, unsettled int
	}{
		{"equal at once", []*ui.Ledger{page1}, []*State{state1}, 1, 0, 0},
		{"the page is older than the list", []*ui.Ledger{page1, page2}, []*State{state2}, 2, 0, 0},
		{"the page is newer than the list", []*ui.Ledger{page2}, []*State{state1, state1, state2}, 2, 0, 0},
		{"the books learn of it in the end", []*ui.Ledger{page1, page1, page1, page2}, []*State{state2}, 4, 0, 0},
		{"the books never learn of it", []*ui.Ledger{page1}, []*State{state2}, 5, 0, 3},
		{"the books were told and have it wrong", []*ui.Ledger{&told}, []*State{state2}, 5, 3, 0},
		{"it changes each time, once to what the books have", []*ui.Ledger{page1},
			[]*State{state2, state3, state2, state1, state2}, 3, 0, 0},
		{"it changes each time, to nothing that the books have", []*ui.Ledger{page2},
			[]*State{state1, state3, state1, state3, state1, state3, state1, state3, state1}, 5, 0, 3},
		{"a line that is never right, but each pod was once", []*ui.Ledger{page1, pageC}, []*State{stateC, stateCD}, 2,
			0, 0},
		{"a card whose facts change while the books are read", []*ui.Ledger{small},
			[]*State{stateCD, cordoned, stateCD, cordoned, stateCD, cordoned, stateCD, cordoned, stateCD}, 5, 1, 1},
		{"a leak beside what moves", []*ui.Ledger{leak, leak, leak, leak, leak},
			[]*State{state2, state1, state2, state1, state2, state1, state2, state1, state2}, 5, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{pages: c.pages, states: c.states}
			b, _, err := Compare(t.Context(), s.source(3))
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Drift) != c.drift || len(b.Unsettled) != c.unsettled || s.looks != c.looks {
				t.Errorf("%d lines of drift, %d unsettled after %d pages; want %d, %d, %d\n%q\n%q", len(b.Drift),
					len(b.Unsettled), s.looks,
					c.drift, c.unsettled, c.looks, summary(b.Drift), summary(b.Unsettled))
			}
		})
	}
}

func TestLookFails(t *testing.T) {
	w := usual()
	broken := errors.New("broken")
	s := &script{pages: []*ui.Ledger{w.extender(t, nil)}, states: []*State{w.state()}, err: broken}
	if _, _, err := Compare(t.Context(), s.source(0)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	s = &script{pages: []*ui.Ledger{{}}, states: []*State{w.state()}}
	if _, _, err := Compare(t.Context(), s.source(0)); err == nil {
		t.Error("a page of something else is taken for books")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.pods = nil
	s = &script{pages: []*ui.Ledger{usual().extender(t, nil)}, states: []*State{w.state()}}
	slow := s.source(0)
	slow.Pauses = []time.Duration{time.Hour}
	if _, _, err := Compare(ctx, slow); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestNotes(t *testing.T) {
	w := usual()
	w.nodes[1].Annotations["hami.io/node-nvidia-register"] = "garbage"
	w.quotas[0] = quota("16Gi")
	w.pods = append(w.pods,
		trainer("foreign", "n1", 14, ""), trainer("garbled", "n1", 15,
			"G0,abc,;"), ended(trainer("done", "n1", 16, "G0,abc,;")),
		trainer("large", "n1", 17, "G1,NVIDIA,25000,0:;G1,NVIDIA,5000,0:;"))
	var objects []string
	for _, n := range w.state().Notes() {
		objects = append(objects, n.Object)
	}
	want := []string{"Device G1 on node n1", "Node n2", "Pod ml/foreign", "Pod ml/garbled", "ResourceQuota ml/team"}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if b := settled(t, w.state(), w.extenderOfGarbage(t)); len(b.Drift)+len(b.Unsettled) > 0 {
		t.Errorf("what is noted is no drift: %q", summary(b.Drift))
	}
}

// extenderOfGarbage is extender for a quota that cannot be read.
func (w objects) extenderOfGarbage(t *testing.T) *ui.Ledger {
	q := w.quotas[0]
	w.quotas = nil
	return w.extender(t, func(b *ledger.Book) {
		truth, _ := kube.Quota(q)
		b.SetQuota(truth)
	})
}
