package filter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// fixture is a Filter with a real ledger, which records what the other packages are given.
type fixture struct {
	*filter.Filter
	sample.Book
	shut    map[string]string
	counted map[string]int
	ended   []string // "mark pod [nodes that refused it]"
	begun   int
}

func newFixture() *fixture {
	f := &fixture{Book: sample.NewBook(), shut: map[string]string{}, counted: map[string]int{}}
	f.Filter = &filter.Filter{Book: f.Book, Gate: f, Queue: f, Recent: filter.NewRecent(4), Metrics: f}
	return f
}

func (f *fixture) Refusals() map[string]string { return f.shut }

func (f *fixture) Refused(reason string, nodes int) { f.counted[reason] += nodes }

func (f *fixture) FilterStarts() int { f.begun++; return f.begun }

func (f *fixture) FilterEnds(mark int, p *podrequest.Request, nodes []string) {
	f.ended = append(f.ended, fmt.Sprint(mark, " ", p, " ", nodes))
}

func card(uuid string, memoryMiB int64) device.Device {
	c := sample.Card(uuid)
	c.Capacity.Slots, c.Capacity.MemoryMiB = 4, memoryMiB
	return c
}

func (f *fixture) node(name string, devices ...device.Device) {
	f.SetNode(ledger.Node{Name: name, Devices: devices})
}

// hold books memory on a device for another pod.
func (f *fixture) hold(node, uuid string, memoryMiB int64) {
	f.Book.Hold(node+uuid, node, uuid, 0, memoryMiB)
}

func args(pod *corev1.Pod, nodes ...string) *extenderv1.ExtenderArgs {
	return &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}
}

func TestFilter(t *testing.T) {
	f := newFixture()
	f.node("fits", card("G0", 24576))
	f.node("full", card("G1", 24576))
	f.hold("full", "G1", 12000)
	f.node("small", card("G2", 8000))
	f.node("none")
	f.node("gate", card("G3", 24576))
	// The full node is refused for the shortage: its gate opens by itself.
	f.shut = map[string]string{"gate": "GPU gate shut", "full": "GPU gate shut"}
	f.SetNode(ledger.Node{Name: "garbage", Unreadable: "annotation: not JSON"})
	f.node("record", card("G4", 24576))
	f.Spoil("x", "record")
	generation := f.Book.Generation()

	pod := threePhases("p", 20000, 1000, 8000)
	got := f.Filter.Filter(t.Context(), args(pod, "full", "fits", "small", "none"))
	rest := f.Filter.Filter(t.Context(), args(pod, "gate", "garbage", "record", "new")) // a handful of reasons each
	maps.Copy(got.FailedAndUnresolvableNodes, rest.FailedAndUnresolvableNodes)
	want := &extenderv1.ExtenderFilterResult{
		NodeNames: &[]string{"fits"},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{ // all: eviction helps nowhere
			"full":    "Insufficient GPU memory in the pod's phases",
			"gate":    "GPU gate shut",
			"garbage": "Unreadable GPU inventory",
			"record":  "Pods with an unreadable GPU allocation",
			"new":     "GPU inventory not known yet",
			"small":   "GPUs too small for the pod's phases",
			"none":    "No GPU of the requested family",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	counted := map[string]int{
		"Insufficient GPU memory in the pod's phases": 1, "GPU gate shut": 1, "Unreadable GPU inventory": 1,
		"Pods with an unreadable GPU allocation": 1, "GPU inventory not known yet": 1,
		"GPUs too small for the pod's phases": 1, "No GPU of the requested family": 1,
	}
	if diff := cmp.Diff(counted, f.counted); diff != "" {
		t.Error(diff)
	}
	if f.Book.Generation() != generation {
		t.Error("Filter has changed the ledger")
	}
	if diff := cmp.Diff([]string{"1 ns/p []", "2 ns/p [gate garbage record new]"}, f.ended); diff != "" {
		t.Errorf("the queue was given: %s", diff)
	}
	if f.Recent.Get("p") == nil {
		t.Error("Bind will not find the pod")
	}
}

func TestRefusedEverywhere(t *testing.T) {
	f := newFixture()
	f.node("a", card("G0", 8000))
	f.node("b")
	got := f.Filter.Filter(t.Context(), args(threePhases("p", 20000, 1000, 8000), "a", "b"))
	if got.Error != "" || len(*got.NodeNames) != 0 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"1 ns/p [a b]"}, f.ended); diff != "" {
		t.Errorf("the queue was given: %s", diff)
	}
	if f.Recent.Get("p") != nil {
		t.Error("a pod that nobody can bind is kept for Bind")
	}
}

// Of 1,000 nodes the one that fits is found.
func TestTheOneNodeThatFits(t *testing.T) {
	f := newFixture()
	var nodes []string
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		memory := int64(8000)
		if i == 617 {
			memory = 24576
		}
		f.node(name, card("G-"+name, memory))
		nodes = append(nodes, name)
	}
	got := f.Filter.Filter(t.Context(), args(threePhases("p", 20000, 1000, 8000), nodes...))
	if diff := cmp.Diff([]string{"n617"}, *got.NodeNames); diff != "" || len(got.FailedAndUnresolvableNodes) != 999 {
		t.Errorf("%s, %d refused", diff, len(got.FailedAndUnresolvableNodes))
	}
}

func TestBadRequests(t *testing.T) {
	bad := threePhases("p", 1, 1, 1)
	bad.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("16Gi")
	policy := threePhases("p", 1, 1, 1)
	policy.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	for name, test := range map[string]struct {
		args *extenderv1.ExtenderArgs
		says []string
	}{
		"no pod": {&extenderv1.ExtenderArgs{NodeNames: &[]string{"a"}}, []string{"Pod"}},
		"nodes whole": {
			&extenderv1.ExtenderArgs{Pod: sample.Pod("p", 1, 1), Nodes: &corev1.NodeList{}}, []string{"nodeCacheCapable"},
		},
		"bad quantity":   {args(bad, "a"), []string{"ns/p", "app", "nvidia.com/gpumem", "16Gi"}},
		"unknown policy": {args(policy, "a"), []string{"ns/p", "hami.io/gpu-scheduler-policy", "tetris", "binpack"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.node("a", card("G0", 8000))
			got := f.Filter.Filter(t.Context(), test.args)
			for _, word := range test.says {
				if !strings.Contains(got.Error, word) {
					t.Errorf("error %q does not say %q", got.Error, word)
				}
			}
			if got.NodeNames != nil || len(f.ended) != 0 {
				t.Errorf("%v, %v", got.NodeNames, f.ended)
			}
			if scores, err := f.Prioritize(t.Context(), test.args); err == nil {
				t.Errorf("scores %v", scores)
			}
		})
	}
}

func TestPodWithoutDevices(t *testing.T) {
	f := newFixture()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	got := f.Filter.Filter(t.Context(), args(pod, "a", "b"))
	if diff := cmp.Diff(&extenderv1.ExtenderFilterResult{NodeNames: &[]string{"a", "b"}}, got); diff != "" {
		t.Error(diff)
	}
	scores, err := f.Prioritize(t.Context(), args(pod, "a", "b"))
	if diff := cmp.Diff(extenderv1.HostPriorityList{}, scores); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// The namespace is charged the largest phase total, MiB × devices, and a pod that exceeds it is refused on every node
// with the numbers.
func TestQuota(t *testing.T) {
	for max, fits := range map[int64]bool{21000: true, 20999: false} {
		f := newFixture()
		f.node("a", card("G0", 24576))
		f.node("b", card("G1", 24576))
		f.Limit(max)
		pod := threePhases("p", 20000, 1000, 8000)
		// The sidecar comes before the init container: 21000 at the peak.
		pod.Spec.InitContainers[0], pod.Spec.InitContainers[1] = pod.Spec.InitContainers[1], pod.Spec.InitContainers[0]
		got := f.Filter.Filter(t.Context(), args(pod, "a", "b"))
		if fits {
			if len(*got.NodeNames) != 2 {
				t.Errorf("quota %d: %+v", max, got)
			}
			continue
		}
		for _, node := range []string{"a", "b"} {
			for _, word := range []string{"Exceeded quota", "21000", "20999"} {
				if why := got.FailedAndUnresolvableNodes[node]; !strings.Contains(why, word) {
					t.Errorf("quota %d, node %s: %q", max, node, why)
				}
			}
		}
		if diff := cmp.Diff(map[string]int{"Exceeded quota": 2}, f.counted); diff != "" {
			t.Error(diff)
		}
	}
}

// Half of a card is an amount once the card is chosen, so the quota differs by node.
func TestQuotaOfAPercentage(t *testing.T) {
	f := newFixture()
	f.node("large", card("G0", 40960))
	f.node("small", card("G1", 24576))
	f.Limit(20000)
	pod := sample.Pod("p", 0, 0)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		"nvidia.com/gpumem-percentage": resource.MustParse("50"),
	}
	got := f.Filter.Filter(t.Context(), args(pod, "large", "small"))
	refused := got.FailedAndUnresolvableNodes
	if diff := cmp.Diff([]string{"small"}, *got.NodeNames); diff != "" || !strings.Contains(refused["large"], "20480") {
		t.Errorf("%s, refused %v", diff, refused)
	}
}

// A pod that is assumed on a node while the outcome of its binding is unknown fits there beside itself.
func TestOwnAssumptionIsNotInTheWay(t *testing.T) {
	f := newFixture()
	f.node("a", card("G0", 24576))
	f.Limit(20000)
	pod := threePhases("p", 20000, 1000, 8000)
	p, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	facts := p.Ledger
	facts.Node = "a"
	_, _, err = f.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
		a, _ := placement.Fit(v.Placement(), p.Placement)
		return a, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Filter.Filter(t.Context(), args(pod, "a")); len(*got.NodeNames) != 1 {
		t.Errorf("the pod itself: %+v", got)
	}
	pod.UID = "another"
	if got := f.Filter.Filter(t.Context(), args(pod, "a")); len(*got.NodeNames) != 0 {
		t.Errorf("another pod: %+v", got)
	}
}

func TestPrioritize(t *testing.T) {
	f := newFixture()
	f.node("empty", card("G0", 24576))
	f.node("half", card("G1", 24576))
	f.hold("half", "G1", 12288)
	f.node("none")
	pod := threePhases("p", 8000, 1000, 8000)
	scores := func(policy string) map[string]int64 {
		pod.Annotations = map[string]string{"hami.io/node-scheduler-policy": policy}
		list, err := f.Prioritize(t.Context(), args(pod, "empty", "half", "none"))
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]int64{}
		for _, s := range list {
			m[s.Host] = s.Score
			if s.Score < 0 || s.Score > 10 {
				t.Errorf("score %d of %s", s.Score, s.Host)
			}
		}
		return m
	}
	if s := scores("binpack"); s["half"] <= s["empty"] || s["none"] != 0 {
		t.Errorf("binpack: %v", s)
	}
	if s := scores("spread"); s["empty"] <= s["half"] || s["none"] != 0 {
		t.Errorf("spread: %v", s)
	}
	// What all nodes have, no answer needs to say.
	all, err := f.Prioritize(t.Context(), args(pod, "empty", "half", "none"))
	fitting, err2 := f.Prioritize(t.Context(), args(pod, "empty", "half"))
	alike, err3 := f.Prioritize(t.Context(), args(pod, "half", "half"))
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(fitting) != 1 || fitting[0].Score != all[0].Score-all[1].Score || len(alike) != 0 {
		t.Errorf("with a node that does not fit %v, without %v, two that are alike %v", all, fitting, alike)
	}
}

func TestClientGone(t *testing.T) {
	f := newFixture()
	f.node("a", card("G0", 24576))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("client gone"))
	pod := threePhases("p", 1, 1, 1)
	if got := f.Filter.Filter(ctx, args(pod, "a")); !strings.Contains(got.Error, "client gone") {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"1 ns/p []"}, f.ended); diff != "" {
		t.Errorf("the queue was given: %s", diff)
	}
}

// A panic over one node is one in the handler, where the server answers it. It does not end the process, and the queue
// learns that this Filter has ended.
func TestPanicInAWorker(t *testing.T) {
	f := newFixture()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
		f.node(names[i], card("G0", 24576))
	}
	f.Filter.Book = broken{f.Book}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "a bug\n") || !strings.Contains(p, "broken.Node") {
			t.Errorf("recovered %.200s", p)
		}
		if diff := cmp.Diff([]string{"1 ns/p []"}, f.ended); diff != "" {
			t.Errorf("the queue was given: %s", diff)
		}
	}()
	f.Filter.Filter(t.Context(), args(threePhases("p", 1, 1, 1), names...))
	t.Error("it went well")
}

type broken struct{ filter.Book }

func (b broken) Node(name string) *ledger.View {
	if name == "n70" {
		panic("a bug")
	}
	return b.Book.Node(name)
}

// threePhases is a pod of an init container, a sidecar and an app with the given memory in MiB.
func threePhases(name string, init, sidecar, app int64) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod, s := sample.Pod(name, 0, app), sample.Container("sidecar", sidecar)
	s.RestartPolicy = &always
	pod.Spec.InitContainers = []corev1.Container{sample.Container("init", init), s}
	return pod
}

// What Prioritize answers right after Filter, of what that found, is what it answers by itself.
func TestPrioritizeAfterFilter(t *testing.T) {
	f, other := newFixture(), newFixture()
	for i, held := range []int64{0, 4000, 12288, 20000, 0, 24000, 9000} {
		for _, on := range []*fixture{f, other} {
			name := fmt.Sprint("n", i)
			on.node(name, card(fmt.Sprint("G", i), 24576))
			on.hold(name, fmt.Sprint("G", i), held)
		}
	}
	names := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "none"}
	for _, policy := range []string{"binpack", "spread"} {
		pod := threePhases("p", 3000, 1000, 3000)
		pod.Annotations = map[string]string{"hami.io/node-scheduler-policy": policy}
		fit := *f.Filter.Filter(t.Context(), args(pod, names...)).NodeNames
		if len(fit) != 6 {
			t.Fatalf("fits on %v", fit)
		}
		for _, asked := range [][]string{fit, fit[1:], {fit[2], fit[0], "none"}} {
			got, err := f.Prioritize(t.Context(), args(pod, asked...))
			want, err2 := other.Prioritize(t.Context(), args(pod, asked...))
			if diff := cmp.Diff(want, got); diff != "" || errors.Join(err, err2) != nil || len(want) == 0 {
				t.Errorf("%s, of %v: %v %s", policy, asked, errors.Join(err, err2), diff)
			}
		}
		// Of another pod nothing was found.
		large := threePhases("large", 22000, 1000, 3000)
		got, err := f.Prioritize(t.Context(), args(large, fit...))
		want, err2 := other.Prioritize(t.Context(), args(large, fit...))
		if diff := cmp.Diff(want, got); diff != "" || errors.Join(err, err2) != nil || len(want) == 0 {
			t.Errorf("another pod: %v %s", errors.Join(err, err2), diff)
		}
	}
}
