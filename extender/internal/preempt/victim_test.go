package preempt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/gen/await"
)

// pod has a pod on a node, which the API server knows; it started so many minutes after the others.
func (d *desk) pod(node, uid string, priority int32, minute int, app string) *corev1.Pod {
	started := metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	pod.Spec.NodeName, pod.Spec.Priority, pod.Status.StartTime = node, &priority, &started
	if app != "" {
		pod.Labels = map[string]string{"app": app}
	}
	d.pods[node] = append(d.pods[node], pod)
	return &d.pods[node][len(d.pods[node])-1]
}

func (d *desk) budget(app string, allowed int32) {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	b.Status.DisruptionsAllowed = allowed
	d.budgets = append(d.budgets, b)
}

var noMore = metav1.NewTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))

// Each story has one node with two cards. The pod that asks has priority 1000, its init container takes 16000 MiB
// and its app 8000.
func TestVictims(t *testing.T) {
	for _, test := range []struct {
		name  string
		given []string
		play  func(d *desk)
		want  string // "" when the node is left out
	}{
		{"one is enough, the least important of the two cards", []string{"cpu"}, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 10, 0, "")
			d.pod("n", "b", 5, 0, "")
			d.pod("n", "cpu", 7, 0, "")
		}, "cpu b"},
		{"of two that are alike, the one that began later", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 10, 2, "")
			d.pod("n", "b", 10, 1, "")
		}, "a"},
		{"nobody of the same or a higher priority", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 1000, 0, "")
			d.pod("n", "b", 2000, 0, "")
		}, ""},
		{"nobody who would not help", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 8000)
			d.hold("c", "n", "n-0", 0, 8000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 10, 0, "")
			d.pod("n", "b", 10, 1, "")
			d.pod("n", "c", 10, 2, "")
		}, "c"},
		{"one of a card rather than two of another that are younger", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 8500)
			d.hold("c", "n", "n-0", 0, 8500)
			d.hold("d", "n", "n-0", 0, 7500)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 10, 2, "")
			d.pod("n", "b", 10, 1, "")
			d.pod("n", "c", 10, 3, "")
			d.pod("n", "d", 2000, 3, "")
		}, "b"},
		{"what a victim frees is what it still reserves", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 16000, 2000)
			d.hold("top", "n", "n-0", 0, 8000)
			d.hold("full", "n", "n-1", 0, 24000)
			d.pod("n", "a", 10, 0, "")
			d.pod("n", "top", 1000, 0, "")
			d.pod("n", "full", 1000, 0, "")
		}, "a"},
		{"an init container's peak that nobody leaves room for", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 10000)
			d.hold("top", "n", "n-0", 0, 9000)
			d.hold("full", "n", "n-1", 0, 24000)
			d.pod("n", "a", 10, 0, "")
			d.pod("n", "top", 1000, 0, "")
			d.pod("n", "full", 1000, 0, "")
		}, ""},
		{"whom a budget protects is put back first", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 10, 0, "")
			d.budget("web", 0)
		}, "b"},
		{"of two on one card, too", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 8000)
			d.hold("b", "n", "n-0", 0, 8000)
			d.hold("top", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 10, 0, "")
			d.pod("n", "top", 1000, 0, "")
			d.budget("web", 0)
		}, "b"},
		{"a budget that has one left", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 10, 0, "")
			d.budget("web", 1)
		}, "a"},
		{"no way without a violation, which is counted with those of the given", []string{"cpu"}, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "cpu", 6, 0, "web") // the last that may go
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 4, 0, "web")
			d.budget("web", 1)
		}, "cpu b, 1 violations"},
		{"one that the API server has counted already", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 10, 0, "")
			d.budget("web", 0)
			d.budgets[0].Status.DisruptedPods = map[string]metav1.Time{"a": noMore}
		}, "a"},
		{"budgets of others, of nobody, and without a selector", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "web")
			d.pod("n", "b", 10, 0, "")
			d.budget("web", 0)
			d.budget("db", 0)
			d.budget("web", 0)
			d.budgets[0].Namespace = "other"
			d.budgets[2].Spec.Selector = &metav1.LabelSelector{}
		}, "a"},
		{"who is ending already leaves enough", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "")
			d.pod("n", "b", 10, 0, "").DeletionTimestamp = &noMore
		}, "b"},
		{"who is ending helps, but not enough", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 12000)
			d.hold("c", "n", "n-0", 0, 10000)
			d.hold("top", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "")
			d.pod("n", "c", 10, 0, "").DeletionTimestamp = &noMore
			d.pod("n", "top", 1000, 0, "")
		}, "a"},
		{"who is ending and important is waited for by nobody", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "")
			d.pod("n", "b", 1000, 0, "").DeletionTimestamp = &noMore
		}, "a"},
		{"who has ended, and whom the API server has no more, holds nothing for long", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "").Status.Phase = corev1.PodSucceeded
		}, ""},
		{"a given victim that the API server has no more stays in the answer", []string{"gone"}, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 20000)
			d.hold("b", "n", "n-1", 0, 20000)
			d.pod("n", "a", 5, 0, "")
		}, "a gone"},
		{"whose record cannot be read, if that is what keeps others away", nil, func(d *desk) {
			d.hold("a", "n", "n-0", 0, 1000)
			d.hold("b", "n", "n-1", 0, 1000)
			d.spoil("a", "n")
			d.pod("n", "a", 5, 0, "")
			d.pod("n", "b", 5, 0, "")
		}, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk()
			d.node("n", 2)
			test.play(d)
			generation := d.book.Generation()
			if got := d.ask(t, gpu("p", 16000, 8000), map[string][]string{"n": test.given})["n"]; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if d.book.Generation() != generation {
				t.Error("the books have changed")
			}
		})
	}
}

// Where waiting is enough nobody else is evicted, neither there nor on another node.
func TestWaiting(t *testing.T) {
	d := newDesk()
	for _, node := range []string{"ending", "other"} {
		d.node(node, 1)
		d.hold(node+"-pod", node, node+"-0", 0, 20000)
		d.pod(node, node+"-pod", 5, 0, "")
	}
	d.pods["ending"][0].DeletionTimestamp = &noMore
	both := map[string][]string{"ending": {}, "other": {}}
	pod := gpu("p", 0, 16000)
	if diff := cmp.Diff(map[string]string{"ending": "ending-pod"}, d.ask(t, pod, both)); diff != "" {
		t.Error(diff)
	}
	// A node that kube-scheduler would evict from in any case is no reason to wait.
	if diff := cmp.Diff(map[string]string{"ending": "ending-pod cpu", "other": "other-pod cpu"}, d.ask(t, pod, map[string][]string{"ending": {"cpu"}, "other": {"cpu"}})); diff != "" {
		t.Error(diff)
	}
	// Whoever was nominated waits where it was.
	pod.Status.NominatedNodeName = "ending"
	if got := d.ask(t, pod, map[string][]string{"other": {}}); len(got) > 0 {
		t.Errorf("it should wait: %v", got)
	}
	d.pods["ending"][0].DeletionTimestamp = nil
	if diff := cmp.Diff(map[string]string{"other": "other-pod"}, d.ask(t, pod, map[string][]string{"other": {}})); diff != "" {
		t.Error(diff)
	}
	for _, node := range []string{"", "unknown"} {
		pod.Status.NominatedNodeName = node
		if got := d.ask(t, pod, map[string][]string{"other": {}}); len(got) != 1 {
			t.Errorf("nominated to %q: %v", node, got)
		}
	}
	never := corev1.PreemptNever
	pod.Spec.PreemptionPolicy = &never
	if got := d.ask(t, pod, both); len(got) > 0 {
		t.Errorf("for a pod that preempts nobody: %v", got)
	}
}

// Only nodes that somebody's end could help are read, and one that cannot be read does not keep the others from
// being answered.
func TestReads(t *testing.T) {
	d := newDesk()
	d.node("small", 0)
	nodes := []string{"a", "b", "c", "room", "lost"}
	for _, node := range nodes {
		d.node(node, 1)
		d.pod(node, node+"-pod", 5, 0, "")
		if node != "room" {
			d.hold(node+"-pod", node, node+"-0", 0, 20000)
		}
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: gpu("p", 0, 16000), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for _, node := range append(nodes, "small", "unknown") {
		args.NodeNameToMetaVictims[node] = &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: "cpu"}}}
	}
	d.failing = map[string]error{"lost": errors.New("etcd is away")}
	result, err := d.Preempt.Preempt(t.Context(), args)
	if err == nil || !strings.Contains(err.Error(), "1 of 4 nodes: etcd is away") {
		t.Errorf("%v", err)
	}
	want := map[string]string{"a": "a-pod cpu", "b": "b-pod cpu", "c": "c-pod cpu", "room": "cpu"}
	if diff := cmp.Diff(want, text(result)); diff != "" {
		t.Error(diff)
	}
	if got := d.lists(); !slices.Equal(got, []string{"a", "b", "c", "lost"}) {
		t.Errorf("listed the pods of %v", got)
	}
	d.failing = map[string]error{"": errors.New("forbidden")}
	result, err = d.Preempt.Preempt(t.Context(), args)
	if err == nil || !strings.Contains(err.Error(), "PodDisruptionBudgets: forbidden") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(map[string]string{"room": "cpu"}, text(result)); diff != "" || len(d.lists()) > 0 {
		t.Errorf("budgets are not known, so nobody else may be evicted: %s", diff)
	}
	args.Pod.Status.NominatedNodeName = "lost"
	d.failing = map[string]error{"lost": errors.New("etcd is away")}
	if _, err := d.Preempt.Preempt(t.Context(), args); err == nil || !strings.Contains(err.Error(), "node lost, to which pod ns/p was nominated: etcd is away") {
		t.Errorf("%v", err)
	}
}

// An API server that does not answer keeps kube-scheduler waiting no longer than its own patience.
func TestImpatient(t *testing.T) {
	d := newDesk()
	d.node("a", 1)
	d.hold("a-pod", "a", "a-0", 0, 20000)
	d.Preempt.Pods = func(ctx context.Context, _ string) ([]corev1.Pod, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := d.Preempt.Preempt(ctx, &extenderv1.ExtenderPreemptionArgs{Pod: gpu("p", 0, 16000), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"a": {}}})
	if err == nil || !strings.Contains(err.Error(), "canceled") || len(result.NodeNameToMetaVictims) > 0 {
		t.Errorf("%v, %v", result, err)
	}
}

// What another pod was promised on a node is taken, unless this one is more important.
func TestPromisedRoom(t *testing.T) {
	d := newDesk()
	for _, node := range []string{"promised", "free"} {
		d.node(node, 1)
		d.hold(node+"-pod", node, node+"-0", 0, 8000)
		d.pod(node, node+"-pod", 5, 0, "")
	}
	for _, test := range []struct {
		priority int32 // of the pod to which room was promised
		want     map[string]string
	}{
		{1000, map[string]string{"free": "free-pod"}},
		{999, map[string]string{"free": "free-pod", "promised": "promised-pod"}},
	} {
		other := gpu("other", 0, 16000)
		other.Spec.Priority, other.Status.NominatedNodeName = &test.priority, "promised"
		d.Preempt.Nominated = nominatedSet(t, other)
		got := d.ask(t, gpu("p", 0, 20000), map[string][]string{"promised": {}, "free": {}})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("priority %d: %s", test.priority, diff)
		}
	}
}

// nominatedSet is a set that knows of a nominated pod.
func nominatedSet(t *testing.T, pod *corev1.Pod) *nominated.Set {
	t.Helper()
	s := &nominated.Set{Booked: func(string) bool { return false }, Ended: func(string) {}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, fake.NewClientset(pod)) }()
	t.Cleanup(func() { cancel(); <-done })
	await.Until(t, "the nominated pod is known", s.Synced)
	return s
}
