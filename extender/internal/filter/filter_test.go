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
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// desk is a Filter with real books.
type desk struct {
	*filter.Filter
	book    *ledger.Book
	shut    map[string]string
	counted map[string]int
	ended   []string // "pod: nodes that refused it"
	begun   int
}

func newDesk() *desk {
	d := &desk{book: ledger.New(), counted: map[string]int{}}
	d.Filter = &filter.Filter{
		Book: d.book, Gate: d, Queue: d, Recent: filter.NewRecent(4), Metrics: d,
	}
	return d
}

func (d *desk) Refusals() map[string]string { return d.shut }

func (d *desk) Refused(reason string, nodes int) { d.counted[reason] += nodes }

func (d *desk) FilterStarts() int { d.begun++; return d.begun }

func (d *desk) FilterEnds(mark int, p *podrequest.Request, nodes []string) {
	d.ended = append(d.ended, fmt.Sprint(mark, " ", p, " ", nodes))
}

func card(uuid string, memoryMiB int64) device.Device {
	return device.Device{UUID: uuid, Family: "NVIDIA", Model: "A", Healthy: true, Capacity: device.Amount{Slots: 4, MemoryMiB: memoryMiB, Cores: 100}}
}

func (d *desk) node(name string, devices ...device.Device) {
	d.book.SetNode(ledger.Node{Name: name, Devices: devices})
}

// hold books memory on a device for another pod.
func (d *desk) hold(node, uuid string, memoryMiB int64) {
	d.book.Observe(ledger.Pod{
		UID: node + uuid, Namespace: "others", Name: uuid, Node: node, Classes: phase.Pod{phase.App},
		Allocation: device.Allocation{{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB}}}},
	})
}

func args(pod *corev1.Pod, nodes ...string) *extenderv1.ExtenderArgs {
	return &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}
}

func TestFilter(t *testing.T) {
	d := newDesk()
	d.node("fits", card("G0", 24576))
	d.node("full", card("G1", 24576))
	d.hold("full", "G1", 12000)
	d.node("small", card("G2", 8000))
	d.node("none")
	d.node("gate", card("G3", 24576))
	// Of the full node the shortage is said: that its gate is shut passes by itself.
	d.shut = map[string]string{"gate": "GPU gate shut", "full": "GPU gate shut"}
	d.book.SetNode(ledger.Node{Name: "garbage", Unreadable: "annotation: not JSON"})
	d.node("record", card("G4", 24576)) // case 27
	d.book.Observe(ledger.Pod{UID: "x", Namespace: "others", Name: "x", Node: "record", Classes: phase.Pod{phase.App}, Unreadable: "annotation: G0,abc,;"})
	generation := d.book.Generation()

	pod := threePhases("p", 20000, 1000, 8000)
	got := d.Filter.Filter(t.Context(), args(pod, "full", "fits", "small", "none"))
	rest := d.Filter.Filter(t.Context(), args(pod, "gate", "garbage", "record", "new")) // a handful of reasons each
	maps.Copy(got.FailedAndUnresolvableNodes, rest.FailedAndUnresolvableNodes)
	want := &extenderv1.ExtenderFilterResult{
		NodeNames: &[]string{"fits"},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{ // all: nobody would be evicted for it
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
	if diff := cmp.Diff(counted, d.counted); diff != "" {
		t.Error(diff)
	}
	// Case 23: a Filter books nothing.
	if d.book.Generation() != generation {
		t.Error("the books have changed")
	}
	if diff := cmp.Diff([]string{"1 ns/p []", "2 ns/p [gate garbage record new]"}, d.ended); diff != "" {
		t.Errorf("told the wake-up: %s", diff)
	}
	if d.Recent.Get("p") == nil {
		t.Error("Bind will not find the pod")
	}
}

func TestRefusedEverywhere(t *testing.T) {
	d := newDesk()
	d.node("a", card("G0", 8000))
	d.node("b")
	got := d.Filter.Filter(t.Context(), args(threePhases("p", 20000, 1000, 8000), "a", "b"))
	if got.Error != "" || len(*got.NodeNames) != 0 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"1 ns/p [a b]"}, d.ended); diff != "" {
		t.Errorf("told the wake-up: %s", diff)
	}
	if d.Recent.Get("p") != nil {
		t.Error("a pod that nobody can bind is kept for Bind")
	}
}

// Case 50: of 1,000 nodes the one that fits is found.
func TestTheOneNodeThatFits(t *testing.T) {
	d := newDesk()
	var nodes []string
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		memory := int64(8000)
		if i == 617 {
			memory = 24576
		}
		d.node(name, card("G-"+name, memory))
		nodes = append(nodes, name)
	}
	got := d.Filter.Filter(t.Context(), args(threePhases("p", 20000, 1000, 8000), nodes...))
	if diff := cmp.Diff([]string{"n617"}, *got.NodeNames); diff != "" || len(got.FailedAndUnresolvableNodes) != 999 {
		t.Errorf("%s, %d refused", diff, len(got.FailedAndUnresolvableNodes))
	}
}

func TestBadRequests(t *testing.T) {
	bad := threePhases("p", 1, 1, 1)
	bad.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("16Gi") // case 11
	policy := threePhases("p", 1, 1, 1)
	policy.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	for name, test := range map[string]struct {
		args *extenderv1.ExtenderArgs
		says []string
	}{
		"no pod":         {&extenderv1.ExtenderArgs{NodeNames: &[]string{"a"}}, []string{"Pod"}},
		"nodes whole":    {&extenderv1.ExtenderArgs{Pod: threePhases("p", 1, 1, 1), Nodes: &corev1.NodeList{}}, []string{"nodeCacheCapable"}},
		"bad quantity":   {args(bad, "a"), []string{"ns/p", "app", "nvidia.com/gpumem", "16Gi"}},
		"unknown policy": {args(policy, "a"), []string{"ns/p", "hami.io/gpu-scheduler-policy", "tetris", "binpack"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			d.node("a", card("G0", 8000))
			got := d.Filter.Filter(t.Context(), test.args)
			for _, word := range test.says {
				if !strings.Contains(got.Error, word) {
					t.Errorf("error %q does not say %q", got.Error, word)
				}
			}
			if got.NodeNames != nil || len(d.ended) != 0 {
				t.Errorf("%v, %v", got.NodeNames, d.ended)
			}
			if scores, err := d.Prioritize(t.Context(), test.args); err == nil {
				t.Errorf("scores %v", scores)
			}
		})
	}
}

func TestPodWithoutDevices(t *testing.T) {
	d := newDesk()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	got := d.Filter.Filter(t.Context(), args(pod, "a", "b"))
	if diff := cmp.Diff(&extenderv1.ExtenderFilterResult{NodeNames: &[]string{"a", "b"}}, got); diff != "" {
		t.Error(diff)
	}
	scores, err := d.Prioritize(t.Context(), args(pod, "a", "b"))
	if diff := cmp.Diff(extenderv1.HostPriorityList{}, scores); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// Cases 4 and 7: the namespace is charged the largest phase total, MiB × devices, and a pod that exceeds
// it is refused on every node with the numbers.
func TestQuota(t *testing.T) {
	for max, fits := range map[int64]bool{21000: true, 20999: false} {
		d := newDesk()
		d.node("a", card("G0", 24576))
		d.node("b", card("G1", 24576))
		d.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: max}}})
		pod := threePhases("p", 20000, 1000, 8000)
		// The sidecar comes before the init container: 21000 at the peak.
		pod.Spec.InitContainers[0], pod.Spec.InitContainers[1] = pod.Spec.InitContainers[1], pod.Spec.InitContainers[0]
		got := d.Filter.Filter(t.Context(), args(pod, "a", "b"))
		if fits {
			if len(*got.NodeNames) != 2 {
				t.Errorf("quota %d: %+v", max, got)
			}
			continue
		}
		for _, node := range []string{"a", "b"} {
			if why := got.FailedAndUnresolvableNodes[node]; !strings.Contains(why, "Exceeded quota") || !strings.Contains(why, "21000") || !strings.Contains(why, "20999") {
				t.Errorf("quota %d, node %s: %q", max, node, why)
			}
		}
		if diff := cmp.Diff(map[string]int{"Exceeded quota": 2}, d.counted); diff != "" {
			t.Error(diff)
		}
	}
}

// Case 10: half of a card is an amount once the card is chosen, and so the quota differs by node.
func TestQuotaOfAPercentage(t *testing.T) {
	d := newDesk()
	d.node("large", card("G0", 40960))
	d.node("small", card("G1", 24576))
	d.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000}}})
	pod := threePhases("p", 0, 0, 0)
	pod.Spec.InitContainers = nil
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem-percentage": resource.MustParse("50")}
	got := d.Filter.Filter(t.Context(), args(pod, "large", "small"))
	if diff := cmp.Diff([]string{"small"}, *got.NodeNames); diff != "" || !strings.Contains(got.FailedAndUnresolvableNodes["large"], "20480") {
		t.Errorf("%s, refused %v", diff, got.FailedAndUnresolvableNodes)
	}
}

// A pod that is assumed on a node while the outcome of its binding is unknown fits there beside itself.
func TestOwnAssumptionIsNotInTheWay(t *testing.T) {
	d := newDesk()
	d.node("a", card("G0", 24576))
	d.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 20000}}})
	pod := threePhases("p", 20000, 1000, 8000)
	p, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	facts := p.Ledger
	facts.Node = "a"
	_, _, err = d.book.Assume(facts, func(*ledger.View) (device.Allocation, error) {
		share := func(mib int64) []device.Share {
			return []device.Share{{UUID: "G0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}}
		}
		return device.Allocation{share(20000), share(1000), share(8000)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Filter.Filter(t.Context(), args(pod, "a")); len(*got.NodeNames) != 1 {
		t.Errorf("the pod itself: %+v", got)
	}
	pod.UID = "another"
	if got := d.Filter.Filter(t.Context(), args(pod, "a")); len(*got.NodeNames) != 0 {
		t.Errorf("another pod: %+v", got)
	}
}

func TestPrioritize(t *testing.T) {
	d := newDesk()
	d.node("empty", card("G0", 24576))
	d.node("half", card("G1", 24576))
	d.hold("half", "G1", 12288)
	d.node("none")
	pod := threePhases("p", 8000, 1000, 8000)
	scores := func(policy string) map[string]int64 {
		pod.Annotations = map[string]string{"hami.io/node-scheduler-policy": policy}
		list, err := d.Prioritize(t.Context(), args(pod, "empty", "half", "none"))
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
	all, err := d.Prioritize(t.Context(), args(pod, "empty", "half", "none"))
	fitting, err2 := d.Prioritize(t.Context(), args(pod, "empty", "half"))
	alike, err3 := d.Prioritize(t.Context(), args(pod, "half", "half"))
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(fitting) != 1 || fitting[0].Score != all[0].Score-all[1].Score || len(alike) != 0 {
		t.Errorf("with a node that does not fit %v, without %v, two that are alike %v", all, fitting, alike)
	}
}

func TestClientGone(t *testing.T) {
	d := newDesk()
	d.node("a", card("G0", 24576))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("client gone"))
	pod := threePhases("p", 1, 1, 1)
	if got := d.Filter.Filter(ctx, args(pod, "a")); !strings.Contains(got.Error, "client gone") {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"1 ns/p []"}, d.ended); diff != "" {
		t.Errorf("told the wake-up: %s", diff)
	}
}

// A panic over one node is one in the handler, where the server answers it: it neither ends the process nor
// leaves the wake-up waiting for this Filter's end.
func TestPanicInAWorker(t *testing.T) {
	d := newDesk()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
		d.node(names[i], card("G0", 24576))
	}
	d.Filter.Book = broken{d.book}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "a bug\n") || !strings.Contains(p, "broken.Node") {
			t.Errorf("recovered %.200s", p)
		}
		if diff := cmp.Diff([]string{"1 ns/p []"}, d.ended); diff != "" {
			t.Errorf("told the wake-up: %s", diff)
		}
	}()
	d.Filter.Filter(t.Context(), args(threePhases("p", 1, 1, 1), names...))
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
	asks := func(name string, mib int64) corev1.Container {
		return corev1.Container{Name: name, Image: "registry.example/" + name + ":1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI), "cpu": resource.MustParse("1")},
		}}
	}
	s := asks("sidecar", sidecar)
	s.RestartPolicy = &always
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{asks("init", init), s}, Containers: []corev1.Container{asks("app", app)}},
	}
}

// What Prioritize answers right after Filter, of what that found, is what it answers by itself.
func TestPrioritizeAfterFilter(t *testing.T) {
	d, other := newDesk(), newDesk()
	for i, held := range []int64{0, 4000, 12288, 20000, 0, 24000, 9000} {
		for _, desk := range []*desk{d, other} {
			name := fmt.Sprint("n", i)
			desk.node(name, card(fmt.Sprint("G", i), 24576))
			desk.hold(name, fmt.Sprint("G", i), held)
		}
	}
	names := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "none"}
	for _, policy := range []string{"binpack", "spread"} {
		pod := threePhases("p", 3000, 1000, 3000)
		pod.Annotations = map[string]string{"hami.io/node-scheduler-policy": policy}
		fit := *d.Filter.Filter(t.Context(), args(pod, names...)).NodeNames
		if len(fit) != 6 {
			t.Fatalf("fits on %v", fit)
		}
		for _, asked := range [][]string{fit, fit[1:], {fit[2], fit[0], "none"}} {
			got, err := d.Prioritize(t.Context(), args(pod, asked...))
			want, err2 := other.Prioritize(t.Context(), args(pod, asked...))
			if diff := cmp.Diff(want, got); diff != "" || errors.Join(err, err2) != nil || len(want) == 0 {
				t.Errorf("%s, of %v: %v %s", policy, asked, errors.Join(err, err2), diff)
			}
		}
		// Of another pod nothing was found.
		large := threePhases("large", 22000, 1000, 3000)
		got, err := d.Prioritize(t.Context(), args(large, fit...))
		want, err2 := other.Prioritize(t.Context(), args(large, fit...))
		if diff := cmp.Diff(want, got); diff != "" || errors.Join(err, err2) != nil || len(want) == 0 {
			t.Errorf("another pod: %v %s", errors.Join(err, err2), diff)
		}
	}
}
