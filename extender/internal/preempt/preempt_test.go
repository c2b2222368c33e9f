package preempt_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/preempt"
)

// desk is a Preempt with real books.
type desk struct {
	*preempt.Preempt
	book    *ledger.Book
	shut    map[string]string
	pods    map[string][]corev1.Pod // that the API server has, by node
	budgets []policyv1.PodDisruptionBudget
	failing map[string]error // of lists, by node, and "" for budgets
	mu      sync.Mutex
	asked   []string // lists that were asked for
}

func newDesk() *desk {
	d := &desk{book: ledger.New(), pods: map[string][]corev1.Pod{}}
	d.Preempt = &preempt.Preempt{
		Book: d.book, Gate: func() map[string]string { return d.shut },
		Pods: func(_ context.Context, node string) ([]corev1.Pod, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.asked = append(d.asked, node)
			return d.pods[node], d.failing[node]
		},
		Budgets: func(context.Context) ([]policyv1.PodDisruptionBudget, error) { return d.budgets, d.failing[""] },
	}
	return d
}

// lists returns the nodes whose pods were listed, sorted, since it was called last.
func (d *desk) lists() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	slices.Sort(asked)
	return asked
}

// node has cards of 24576 MiB, named after it: n-0, n-1.
func (d *desk) node(name string, cards int) {
	n := ledger.Node{Name: name}
	for i := range cards {
		n.Devices = append(n.Devices, device.Device{
			UUID: fmt.Sprintf("%s-%d", name, i), Family: "NVIDIA", Model: "A", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
		})
	}
	d.book.SetNode(n)
}

// hold books for a pod what its containers hold of a card: of an init container, unless that is 0, and of an app.
func (d *desk) hold(uid, node, card string, init, app int64) {
	p := ledger.Pod{UID: uid, Namespace: "ns", Name: uid, Node: node}
	for i, mib := range []int64{init, app} {
		if mib == 0 {
			continue
		}
		p.Classes = append(p.Classes, []phase.Class{phase.Init, phase.App}[i])
		p.Allocation = append(p.Allocation, []device.Share{{UUID: card, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}})
	}
	d.book.Observe(p)
}

// spoil makes the record of a pod unreadable.
func (d *desk) spoil(uid, node string) {
	d.book.Observe(ledger.Pod{UID: uid, Namespace: "ns", Name: uid, Node: node, Classes: phase.Pod{phase.App}, Unreadable: "annotation: G0,abc,;"})
}

// gpu is a pod with an init container, unless its memory is 0, and an app.
func gpu(name string, init, app int64) *corev1.Pod {
	asks := func(name string, mib int64) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
		}}}
	}
	priority := int32(1000)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	pod.Spec.Priority = &priority
	if init > 0 {
		pod.Spec.InitContainers = []corev1.Container{asks("init", init)}
	}
	pod.Spec.Containers = []corev1.Container{asks("app", app)}
	return pod
}

// ask asks about a pod, by node and the victims that are given, and returns what is answered, as text.
func (d *desk) ask(t *testing.T, pod *corev1.Pod, given map[string][]string) map[string]string {
	t.Helper()
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for node, uids := range given {
		m := &extenderv1.MetaVictims{}
		for _, uid := range uids {
			m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: uid})
		}
		args.NodeNameToMetaVictims[node] = m
	}
	result, err := d.Preempt.Preempt(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	return text(result)
}

func text(r *extenderv1.ExtenderPreemptionResult) map[string]string {
	all := map[string]string{}
	for node, victims := range r.NodeNameToMetaVictims {
		uids := []string{}
		for _, v := range victims.Pods {
			uids = append(uids, v.UID)
		}
		all[node] = strings.Join(uids, " ")
		if victims.NumPDBViolations > 0 {
			all[node] += fmt.Sprintf(", %d violations", victims.NumPDBViolations)
		}
	}
	return all
}

// Victims that kube-scheduler picked for what it sees are for nothing on a node whose cards stay full.
func TestVeto(t *testing.T) {
	d := newDesk()
	for _, node := range []string{"room", "full", "freed", "phase", "gate", "own"} {
		d.node(node, 1)
	}
	d.node("bare", 0)
	d.hold("other", "full", "full-0", 0, 20000)
	d.hold("frees", "freed", "freed-0", 0, 20000)
	d.hold("stays", "freed", "freed-0", 0, 4000)
	d.hold("begins", "phase", "phase-0", 20000, 1000)
	d.hold("p", "own", "own-0", 0, 20000) // its own binding, of which nobody knows what became
	d.shut = map[string]string{"gate": "GPU gate shut"}
	given := map[string][]string{
		"room": {"cpu"}, "full": {"cpu"}, "freed": {"cpu", "frees"}, "phase": {"cpu"}, "gate": {"cpu"}, "own": {"cpu"}, "bare": {"cpu"},
		"unknown": {"cpu"}, "nobody": {},
	}
	want := map[string]string{"room": "cpu", "freed": "cpu frees", "own": "cpu"}
	if diff := cmp.Diff(want, d.ask(t, gpu("p", 16000, 8000), given)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := d.ask(t, gpu("p", 0, 3000), map[string][]string{"phase": {"cpu"}}); got["phase"] != "cpu" {
		t.Errorf("beside an init container: %v", got)
	}
	// What asks for no device is none of ours.
	plain := &corev1.Pod{}
	if diff := cmp.Diff(map[string]string{"full": "cpu", "unknown": "cpu"}, d.ask(t, plain, map[string][]string{"full": {"cpu"}, "unknown": {"cpu"}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A victim gives back to its namespace's quota, too; but for a quota nobody else is evicted.
func TestQuota(t *testing.T) {
	d := newDesk()
	d.node("n", 1)
	d.hold("a", "n", "n-0", 0, 8000)
	d.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 10000}}})
	for uid, want := range map[string]string{"a": "a", "cpu": ""} {
		if got := d.ask(t, gpu("p", 0, 8000), map[string][]string{"n": {uid}}); got["n"] != want {
			t.Errorf("when %s goes: %v", uid, got)
		}
	}
	whole := gpu("p", 0, 8000)
	whole.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpumem-percentage": resource.MustParse("50")}
	if got := d.ask(t, whole, map[string][]string{"n": {"a"}}); len(got) > 0 {
		t.Errorf("half a card is more than the quota: %v", got)
	}
}

// A scheduler that does not know nodeCacheCapable sends the pods, and is answered alike.
func TestWholeVictims(t *testing.T) {
	d := newDesk()
	d.node("n", 1)
	result, err := d.Preempt.Preempt(t.Context(), &extenderv1.ExtenderPreemptionArgs{Pod: gpu("p", 0, 8000), NodeNameToVictims: map[string]*extenderv1.Victims{
		"n": {Pods: []*corev1.Pod{gpu("a", 0, 1), gpu("b", 0, 1)}, NumPDBViolations: 1},
	}})
	if err != nil || !cmp.Equal(text(result), map[string]string{"n": "a b, 1 violations"}) {
		t.Errorf("%v, %v", result, err)
	}
}

func TestBadArguments(t *testing.T) {
	d := newDesk()
	typo := gpu("p", 0, 1)
	typo.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	null := map[string]*extenderv1.MetaVictims{"n": nil}
	for _, test := range []struct {
		args extenderv1.ExtenderPreemptionArgs
		want []string
	}{
		{extenderv1.ExtenderPreemptionArgs{NodeNameToMetaVictims: null}, []string{"no Pod"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo}, []string{"NodeNameToMetaVictims", "NodeNameToVictims"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}, []string{"ns/p", "tetris"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToMetaVictims: null}, []string{`"n"`, "null"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"n": {Pods: []*extenderv1.MetaPod{{UID: "a"}, nil}}}}, []string{`"n"`, "victim 1"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"n": {Pods: []*extenderv1.MetaPod{{}}}}}, []string{`"n"`, "victim 0"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToVictims: map[string]*extenderv1.Victims{"n": nil}}, []string{`"n"`, "null"}},
		{extenderv1.ExtenderPreemptionArgs{Pod: typo, NodeNameToVictims: map[string]*extenderv1.Victims{"n": {Pods: []*corev1.Pod{nil}}}}, []string{`"n"`, "null"}},
	} {
		result, err := d.Preempt.Preempt(t.Context(), &test.args)
		if err == nil || result != nil {
			t.Errorf("%v: answered %v", test.want, result)
			continue
		}
		if i := slices.IndexFunc(test.want, func(word string) bool { return !strings.Contains(err.Error(), word) }); i >= 0 {
			t.Errorf("%q does not say %q", err, test.want[i])
		}
	}
}
