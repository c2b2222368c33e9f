package preempt_test

import (
	"fmt"
	"math/rand"
	"slices"
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
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/preempt"
)

// fixture is a Preempt with a real ledger and gates that the test shuts.
type fixture struct {
	*preempt.Preempt
	book *ledger.Book
	shut gates
}

type gates map[string]string

func (g gates) Refusals() map[string]string { return g }

func newFixture() *fixture {
	f := &fixture{book: ledger.New(), shut: gates{}}
	f.Preempt = &preempt.Preempt{Book: f.book, Gate: f.shut}
	return f
}

// node adds a node with cards of 24576 MiB, named after it: n-0, n-1.
func (f *fixture) node(name string, cards int) {
	n := ledger.Node{Name: name}
	for i := range cards {
		n.Devices = append(n.Devices, device.Device{
			UUID: fmt.Sprintf("%s-%d", name, i), Family: "NVIDIA", Model: "A", Healthy: true,
			Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
		})
	}
	f.book.SetNode(n)
}

// hold books MiB of a card for a pod's init container, unless that is 0, and for its app.
func (f *fixture) hold(uid, node, card string, init, app int64) {
	p := ledger.Pod{UID: uid, Namespace: "ns", Name: uid, Node: node}
	for i, mib := range []int64{init, app} {
		if mib == 0 {
			continue
		}
		p.Classes = append(p.Classes, []phase.Class{phase.Init, phase.App}[i])
		amount := device.Amount{Slots: 1, MemoryMiB: mib}
		p.Allocation = append(p.Allocation, []device.Share{{UUID: card, Family: "NVIDIA", Amount: amount}})
	}
	f.book.Observe(p)
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
func (f *fixture) ask(t *testing.T, pod *corev1.Pod, given map[string][]string) map[string]string {
	t.Helper()
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for node, uids := range given {
		m := &extenderv1.MetaVictims{}
		for _, uid := range uids {
			m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: uid})
		}
		args.NodeNameToMetaVictims[node] = m
	}
	result, err := f.Preempt.Preempt(t.Context(), args)
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

// A node is left out when its cards stay full without the victims that kube-scheduler picked for what it sees.
func TestVeto(t *testing.T) {
	f := newFixture()
	for _, node := range []string{"room", "full", "freed", "phase", "gate", "own", "spoilt"} {
		f.node(node, 1)
	}
	f.node("bare", 0)
	f.hold("other", "full", "full-0", 0, 20000)
	f.hold("frees", "freed", "freed-0", 0, 20000)
	f.hold("stays", "freed", "freed-0", 0, 4000)
	f.hold("begins", "phase", "phase-0", 20000, 1000)
	f.hold("p", "own", "own-0", 0, 20000) // its own binding, whose outcome is unknown
	f.book.Observe(ledger.Pod{
		UID: "unreadable", Namespace: "ns", Name: "unreadable", Node: "spoilt", Classes: phase.Pod{phase.App}, Unreadable: "annotation",
	})
	f.shut["gate"] = "GPU gate shut"
	generation := f.book.Generation()
	given := map[string][]string{
		"room": {"cpu"}, "full": {"cpu"}, "freed": {"cpu", "frees"}, "phase": {"cpu"}, "gate": {"cpu"}, "own": {"cpu"},
		"bare": {"cpu"}, "unknown": {"cpu"}, "nobody": {}, "spoilt": {"unreadable"},
	}
	want := map[string]string{"room": "cpu", "freed": "cpu frees", "own": "cpu", "spoilt": "unreadable"}
	if diff := cmp.Diff(want, f.ask(t, gpu("p", 16000, 8000), given)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := f.ask(t, gpu("p", 16000, 8000), map[string][]string{"spoilt": {"cpu"}}); len(got) > 0 {
		t.Errorf("beside an unreadable record: %v", got)
	}
	if got := f.ask(t, gpu("p", 0, 3000), map[string][]string{"phase": {"cpu"}}); got["phase"] != "cpu" {
		t.Errorf("beside an init container: %v", got)
	}
	if f.book.Generation() != generation {
		t.Error("the ledger has changed")
	}
	// A pod without devices is not ours to veto.
	given = map[string][]string{"full": {"cpu"}, "unknown": {"cpu"}}
	if diff := cmp.Diff(map[string]string{"full": "cpu", "unknown": "cpu"}, f.ask(t, &corev1.Pod{}, given)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Victims also give back what their namespace's quota charges.
func TestQuota(t *testing.T) {
	f := newFixture()
	f.node("n", 1)
	f.hold("a", "n", "n-0", 0, 8000)
	f.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 10000},
	}})
	for uid, want := range map[string]string{"a": "a", "cpu": ""} {
		if got := f.ask(t, gpu("p", 0, 8000), map[string][]string{"n": {uid}}); got["n"] != want {
			t.Errorf("when %s goes: %v", uid, got)
		}
	}
	half := gpu("p", 0, 8000)
	half.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		"nvidia.com/gpumem-percentage": resource.MustParse("50"),
	}
	if got := f.ask(t, half, map[string][]string{"n": {"a"}}); len(got) > 0 {
		t.Errorf("half a card is more than the quota: %v", got)
	}
}

// Room that is kept for a nominated pod is taken, unless the pod that preempts has the higher priority.
func TestNominated(t *testing.T) {
	f := newFixture()
	for _, node := range []string{"kept", "free"} {
		f.node(node, 1)
		f.hold(node+"-pod", node, node+"-0", 0, 8000)
	}
	given := map[string][]string{"kept": {"kept-pod"}, "free": {"free-pod"}}
	for _, test := range []struct {
		priority int32 // of the nominated pod
		want     map[string]string
	}{
		{1000, map[string]string{"free": "free-pod"}},
		{999, map[string]string{"free": "free-pod", "kept": "kept-pod"}},
	} {
		other := gpu("other", 0, 16000)
		other.Spec.Priority, other.Status.NominatedNodeName = &test.priority, "kept"
		f.Preempt.Nominated = nominated.New(podrequest.Defaults{}, f.book, nil)
		f.Preempt.Nominated.Observe(other)
		if diff := cmp.Diff(test.want, f.ask(t, gpu("p", 0, 20000), given)); diff != "" {
			t.Errorf("priority %d: %s", test.priority, diff)
		}
	}
}

// On random nodes the answer is what a ledger says that the victims were never in.
func TestAnswersAreRight(t *testing.T) {
	var answers [2]int
	for seed := range int64(1000) {
		r := rand.New(rand.NewSource(seed))
		f, rest := newFixture(), newFixture()
		cards := 1 + r.Intn(3)
		f.node("n", cards)
		rest.node("n", cards)
		given := []string{"cpu"}
		for i := range 1 + r.Intn(7) {
			uid, card := string(rune('a'+i)), fmt.Sprintf("n-%d", r.Intn(cards))
			init, app := int64(r.Intn(3))*4000, int64(1+r.Intn(4))*4000
			f.hold(uid, "n", card, init, app)
			if r.Intn(3) == 0 {
				given = append(given, uid)
			} else {
				rest.hold(uid, "n", card, init, app)
			}
		}
		pod := gpu("p", int64(r.Intn(3))*8000, int64(1+r.Intn(5))*4000)
		p, err := podrequest.Parse(pod, podrequest.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if _, reason := placement.Fit(rest.book.Node("n").Placement(), p.Placement); reason == placement.Fits {
			want = strings.Join(given, " ")
			answers[1]++
		} else {
			answers[0]++
		}
		if got := f.ask(t, pod, map[string][]string{"n": given})["n"]; got != want {
			t.Fatalf("seed %d: answered %q to %v, want %q", seed, got, given, want)
		}
	}
	if answers[0] < 20 || answers[1] < 20 {
		t.Errorf("vetoed and approved %v", answers)
	}
}

// A scheduler that does not know nodeCacheCapable sends the pods, and is answered alike.
func TestWholeVictims(t *testing.T) {
	f := newFixture()
	f.node("n", 1)
	args := &extenderv1.ExtenderPreemptionArgs{Pod: gpu("p", 0, 8000), NodeNameToVictims: map[string]*extenderv1.Victims{
		"n": {Pods: []*corev1.Pod{gpu("a", 0, 1), gpu("b", 0, 1)}, NumPDBViolations: 1},
	}}
	result, err := f.Preempt.Preempt(t.Context(), args)
	if err != nil || !cmp.Equal(text(result), map[string]string{"n": "a b, 1 violations"}) {
		t.Errorf("%v, %v", result, err)
	}
}

func TestBadArguments(t *testing.T) {
	f := newFixture()
	typo := gpu("p", 0, 1)
	typo.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	type args = extenderv1.ExtenderPreemptionArgs
	type meta = map[string]*extenderv1.MetaVictims
	type whole = map[string]*extenderv1.Victims
	for _, test := range []struct {
		args args
		want []string
	}{
		{args{NodeNameToMetaVictims: meta{"n": nil}}, []string{"no Pod"}},
		{args{Pod: typo}, []string{"NodeNameToMetaVictims", "NodeNameToVictims"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta{}}, []string{"ns/p", "tetris"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta{"n": nil}}, []string{`"n"`, "null"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta{"n": {Pods: []*extenderv1.MetaPod{{UID: "a"}, nil}}}}, []string{`"n"`, "victim 1"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta{"n": {Pods: []*extenderv1.MetaPod{{}}}}}, []string{`"n"`, "victim 0"}},
		{args{Pod: typo, NodeNameToVictims: whole{"n": nil}}, []string{`"n"`, "null"}},
		{args{Pod: typo, NodeNameToVictims: whole{"n": {Pods: []*corev1.Pod{nil}}}}, []string{`"n"`, "null"}},
	} {
		result, err := f.Preempt.Preempt(t.Context(), &test.args)
		if err == nil || result != nil {
			t.Errorf("%v: answered %v", test.want, result)
			continue
		}
		if i := slices.IndexFunc(test.want, func(word string) bool { return !strings.Contains(err.Error(), word) }); i >= 0 {
			t.Errorf("%q does not say %q", err, test.want[i])
		}
	}
}
