package preempt_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/preempt"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// fixture is a Preempt with a real ledger and gates that the test shuts.
type fixture struct {
	*preempt.Preempt
	sample.Book
	shut gates
}

type gates map[string]string

func (g gates) Refusals() map[string]string { return g }

func newFixture() *fixture {
	f := &fixture{Book: sample.NewBook(), shut: gates{}}
	f.Preempt = &preempt.Preempt{Book: f.Book, Gate: f.shut}
	return f
}

// gpu is a pod of priority 1000.
func gpu(name string, init, app int64) *corev1.Pod {
	return sample.Nominated(sample.Pod(name, init, app), 1000, "")
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
		f.Add(node, 1)
	}
	f.Add("bare", 0)
	f.Hold("other", "full", "full-0", 0, 20000)
	f.Hold("frees", "freed", "freed-0", 0, 20000)
	f.Hold("stays", "freed", "freed-0", 0, 4000)
	f.Hold("begins", "phase", "phase-0", 20000, 1000)
	f.Hold("p", "own", "own-0", 0, 20000) // its own binding, whose outcome is unknown
	f.Spoil("unreadable", "spoilt")
	f.shut["gate"] = "GPU gate shut"
	generation := f.Book.Generation()
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
	if f.Book.Generation() != generation {
		t.Error("the ledger has changed")
	}
	// A pod without devices is not ours to veto.
	given = map[string][]string{"full": {"cpu"}, "unknown": {"cpu"}}
	want = map[string]string{"full": "cpu", "unknown": "cpu"}
	if diff := cmp.Diff(want, f.ask(t, &corev1.Pod{}, given)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Victims also give back what their namespace's quota charges.
func TestQuota(t *testing.T) {
	f := newFixture()
	f.Add("n", 1)
	f.Hold("a", "n", "n-0", 0, 8000)
	f.Limit(10000)
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
		f.Add(node, 1)
		f.Hold(node+"-pod", node, node+"-0", 0, 8000)
	}
	given := map[string][]string{"kept": {"kept-pod"}, "free": {"free-pod"}}
	for _, test := range []struct {
		priority int32 // of the nominated pod
		want     map[string]string
	}{
		{1000, map[string]string{"free": "free-pod"}},
		{999, map[string]string{"free": "free-pod", "kept": "kept-pod"}},
	} {
		other := sample.Nominated(sample.Pod("other", 0, 16000), test.priority, "kept")
		f.Preempt.Nominated = nominated.New(podrequest.Defaults{}, f.Book, nil)
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
		f.Add("n", cards)
		rest.Add("n", cards)
		given := []string{"cpu"}
		for i := range 1 + r.Intn(7) {
			uid, card := string(rune('a'+i)), fmt.Sprintf("n-%d", r.Intn(cards))
			init, app := int64(r.Intn(3))*4000, int64(1+r.Intn(4))*4000
			f.Hold(uid, "n", card, init, app)
			if r.Intn(3) == 0 {
				given = append(given, uid)
			} else {
				rest.Hold(uid, "n", card, init, app)
			}
		}
		pod := gpu("p", int64(r.Intn(3))*8000, int64(1+r.Intn(5))*4000)
		p, err := podrequest.Parse(pod, podrequest.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if _, reason := placement.Fit(rest.Book.Node("n").Placement(), p.Placement); reason == placement.Fits {
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
	f.Add("n", 1)
	victims := &extenderv1.Victims{Pods: []*corev1.Pod{gpu("a", 0, 1), gpu("b", 0, 1)}, NumPDBViolations: 1}
	args := &extenderv1.ExtenderPreemptionArgs{
		Pod: gpu("p", 0, 8000), NodeNameToVictims: map[string]*extenderv1.Victims{"n": victims},
	}
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
	meta := func(pods ...*extenderv1.MetaPod) map[string]*extenderv1.MetaVictims {
		return map[string]*extenderv1.MetaVictims{"n": {Pods: pods}}
	}
	type whole = map[string]*extenderv1.Victims
	null := map[string]*extenderv1.MetaVictims{"n": nil}
	for _, test := range []struct {
		args args
		want []string
	}{
		{args{NodeNameToMetaVictims: null}, []string{"no Pod"}},
		{args{Pod: typo}, []string{"NodeNameToMetaVictims", "NodeNameToVictims"}},
		{args{Pod: typo, NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}, []string{"ns/p", "tetris"}},
		{args{Pod: typo, NodeNameToMetaVictims: null}, []string{`"n"`, "null"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta(&extenderv1.MetaPod{UID: "a"}, nil)}, []string{`"n"`, "victim 1"}},
		{args{Pod: typo, NodeNameToMetaVictims: meta(&extenderv1.MetaPod{})}, []string{`"n"`, "victim 0"}},
		{args{Pod: typo, NodeNameToVictims: whole{"n": nil}}, []string{`"n"`, "null"}},
		{args{Pod: typo, NodeNameToVictims: whole{"n": {Pods: []*corev1.Pod{nil}}}}, []string{`"n"`, "null"}},
	} {
		result, err := f.Preempt.Preempt(t.Context(), &test.args)
		if err == nil || result != nil {
			t.Errorf("%v: answered %v", test.want, result)
			continue
		}
		for _, word := range test.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
}
