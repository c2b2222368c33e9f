package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// running is an extender on a fake API server.
type running struct {
	*Extender
	t       *testing.T
	client  *fake.Clientset
	handler http.Handler
}

// start starts an extender beside a scheduler that elects no leader, unless the options say otherwise, and waits for
// its books.
func start(t *testing.T, o Options, objects ...runtime.Object) *running {
	t.Helper()
	client := fake.NewClientset(objects...)
	// The fake loses what happens between an informer's list and its watch.
	watching := make(chan struct{})
	client.PrependWatchReactor("pods", func(a k8stesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(corev1.SchemeGroupVersion.WithResource("pods"), "")
		if a.(k8stesting.WatchAction).GetWatchRestrictions().Fields.String() == "spec.nodeName!=" { // of bound pods
			close(watching)
		}
		return true, w, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	o.BindTimeout, o.Events = time.Minute, events.Reasons()
	e := Start(ctx, &o, client, zap.NewNop())
	await.Until(t, "the books", func() bool { return e.Ready() == nil })
	<-watching
	return &running{e, t, client, e.Handler()}
}

// call makes a call of kube-scheduler.
func call[R any](r *running, verb string, args any) (result R) {
	r.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+verb, bytes.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), &result); err != nil || w.Code != http.StatusOK {
		r.t.Fatalf("%s: %d, %v", verb, w.Code, err)
	}
	return result
}

func (r *running) filter(pod *corev1.Pod) extenderv1.ExtenderFilterResult {
	r.t.Helper()
	return call[extenderv1.ExtenderFilterResult](r, "filter",
		extenderv1.ExtenderArgs{Pod: pod, NodeNames: &[]string{"n1"}})
}

func (r *running) fits(pod *corev1.Pod) bool { r.t.Helper(); return len(*r.filter(pod).NodeNames) == 1 }

// update writes a changed copy of a pod, which it returns.
func (r *running) update(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	pod = pod.DeepCopy()
	change(pod)
	if _, err := r.client.CoreV1().Pods("ns").Update(r.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return pod
}

// n1 has one card of 24576 MiB.
func n1() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1",
			Annotations: map[string]string{"hami.io/node-nvidia-register": `[{"id":"G0",` +
				`"count":10,"devmem":24576,"devcore":100,"type":"A","mode":"hami-core","health":true}]`}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("10")}},
	}
}

func gpuPod(name string, init, app int64) *corev1.Pod {
	container := func(name string, mib int64) []corev1.Container {
		return []corev1.Container{{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"nvidia.com/gpu":    resource.MustParse("1"),
			"nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
		}}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{InitContainers: container("init", init), Containers: container("app", app)},
	}
}

// bound returns such a pod on n1.
func bound(name string, init, app int64) *corev1.Pod {
	pod := gpuPod(name, init, app)
	pod.Spec.NodeName = "n1"
	record := fmt.Sprintf("G0,NVIDIA,%d,0:;G0,NVIDIA,%d,0:;", init, app)
	pod.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": record}
	return pod
}

// steady sets the status of a pod whose app runs.
func steady(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}},
		}}
}

// What the watch shows reaches the books, the gate, refused pods, events and the UI.
func TestWatch(t *testing.T) {
	holder, waiting := bound("holder", 20480, 10240), gpuPod("waiting", 12288, 12288)
	r := start(t, Options{}, n1(), holder, waiting)
	if err := r.lease.MayBind(t.Context()); err != nil { // waits for the consistent list
		t.Fatal(err)
	}
	if f := r.filter(waiting); f.FailedAndUnresolvableNodes["n1"] != "Insufficient GPU memory in the pod's phases" {
		t.Fatalf("got %+v", f)
	}
	shown := httptest.NewRecorder()
	health := r.Health(t.Context())
	health.ServeHTTP(shown, httptest.NewRequest(http.MethodGet, "/ui/state.json?view=gates", nil))
	for _, want := range []string{
		`"release":"per-init","refused":1,`, `"pods":{"all":1,"shown":1}`,
		`{"node":"n1","inside":["ns/holder"],"waiting":0,`,
	} {
		if !strings.Contains(shown.Body.String(), want) {
			t.Errorf("the UI has no %s: %s", want, shown.Body)
		}
	}
	// The holder is in the gate until kubelet reports on it.
	if n := len(r.gate.States()); n != 1 {
		t.Errorf("%d gates", n)
	}
	holder = r.update(holder, steady)
	await.Until(t, "the waiting pod to be nudged", func() bool {
		for _, action := range r.client.Actions() {
			if p, ok := action.(k8stesting.PatchAction); ok &&
				strings.Contains(string(p.GetPatch()), `"phasegpu.io/nudge"`) {
				return true
			}
		}
		return false
	})
	if !r.fits(waiting) {
		t.Errorf("after the release: %+v", r.filter(waiting))
	}
	if len(r.gate.States()) != 0 {
		t.Error("the gate is still shut")
	}
	// Its memory goes to another, and its containers run again.
	other := bound("other", 12288, 12288)
	if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the other pod", func() bool { return r.book.Pod("other") != nil })
	r.update(holder, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers,
			Status: corev1.ConditionFalse}}
	})
	var written map[string]string // by reason
	await.Until(t, "the events", func() bool {
		events, err := r.client.EventsV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		written = map[string]string{}
		for _, e := range events.Items {
			written[e.Reason] += e.Type + " " + e.Regarding.Name + " " + e.Note
		}
		return len(written) > 1
	})
	want := map[string]string{ // none is about what was there when the extender began
		"GPUReleased": "Normal holder after init container init: GPU G0 10240 MiB, was 20480 MiB",
		"GPUOvercommitted": "Warning holder its containers run again and can use more of GPU G0 of node n1 than " +
			"is left: 2 slots, 32768 MiB, 0% cores reserved of 10 slots, 24576 MiB, 100% cores; " +
			"nothing more is placed there until that falls",
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// Both extenders see what happens to pods. Only the one that leads writes events, and only of what happens while it
// does.
func TestOnlyTheLeaderWritesEvents(t *testing.T) {
	r := start(t, Options{Identity: "me", LeaseName: "lease"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	expect := func(what, want string) {
		t.Helper()
		families, err := r.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if n := m.GetCounter().GetValue(); n > 0 && (f.GetName() == "phasegpu_reservation_changes_total" ||
					f.GetName() == "phasegpu_events_total") {
					all = append(all, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", n))
				}
			}
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	live := func(name string) {
		old := bound(name, 2000, 1000)
		pod := old.DeepCopy()
		steady(pod)
		r.ObservePod(nil, old, nil, r.book.Observe(kube.LedgerPod(old, 0)))
		before := r.book.Pod(name)
		r.ObservePod(old, pod, before, r.book.Observe(kube.LedgerPod(pod, 0)))
	}
	live("before")
	expect("beside a scheduler that does not lead", "")
	holder, seconds, now := "me_1", int32(3600), metav1.NowMicro()
	r.lease.Observe(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now,
	}})
	expect("at the beginning of the term", "")
	live("after")
	expect("in the term", "GPUReleased 1, released 1")
}

// Filter refuses, Preempt approves of victims that make room, the room is kept for the nominated pod, and it gets it.
func TestPreemption(t *testing.T) {
	priority := func(pod *corev1.Pod, value int32) *corev1.Pod { pod.Spec.Priority = &value; return pod }
	other := func(memory int64) *corev1.Pod { return priority(gpuPod("other", 1, memory), 500) }
	high, small := priority(gpuPod("high", 12000, 8000), 1000), priority(gpuPod("small", 1, 4000), 500)
	huge, holder := priority(gpuPod("huge", 30000, 1), 1000), bound("holder", 20000, 20000)
	now := metav1.Now()
	holder.Status.StartTime, holder.Status.Phase = &now, corev1.PodRunning
	r := start(t, Options{}, n1(), holder, high)
	approved := func(pod *corev1.Pod, victim string) bool {
		t.Helper()
		given := map[string]*extenderv1.MetaVictims{"n1": {Pods: []*extenderv1.MetaPod{{UID: victim}}}}
		got := call[extenderv1.ExtenderPreemptionResult](r, "preempt",
			extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: given}).NodeNameToMetaVictims
		if len(got) > 0 && !cmp.Equal(given, got) {
			t.Errorf("asked about %s, answered %v", victim, got)
		}
		return len(got) > 0
	}

	if f := r.filter(huge); len(f.FailedNodes) > 0 || len(f.FailedAndUnresolvableNodes) != 1 {
		t.Errorf("no eviction helps: %+v", f)
	}
	want := extenderv1.FailedNodesMap{"n1": "Insufficient GPU memory in the pod's phases"}
	if f := r.filter(high); !cmp.Equal(want, f.FailedAndUnresolvableNodes) || len(f.FailedNodes) > 0 {
		t.Fatalf("others hold too much: %+v", f)
	}
	if approved(huge, "holder") || approved(high, "cpu") || !approved(high, "holder") {
		t.Fatal("Preempt approves of victims that make no room, or not of one that does")
	}
	if !r.fits(small) { // 4000 beside 20000
		t.Errorf("before a pod is nominated: %+v", r.filter(small))
	}

	// kube-scheduler deletes the victim, which takes its time, and nominates the pod.
	r.update(holder, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Minute)} })
	high = r.update(high, func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
	await.Until(t, "the room is kept", func() bool { return !r.fits(small) })
	// A pod of lower priority may use what is left beside the nominated pod once the victim is gone.
	for memory, want := range map[int64]bool{12576: true, 12577: false} {
		if got := approved(other(memory), "holder"); got != want {
			t.Errorf("a pod of lower priority with %d MiB: approved %t, want %t", memory, got, want)
		}
	}

	if err := r.client.CoreV1().Pods("ns").Delete(t.Context(), "holder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the pod fits", func() bool { return r.fits(high) })
	for memory, want := range map[int64]bool{12576: true, 12577: false} {
		if got := r.fits(other(memory)); got != want {
			t.Errorf("%d MiB beside the nominated pod's 12000: fits %t, want %t", memory, got, want)
		}
	}
	r.update(high, func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
	await.Until(t, "the room is given back", func() bool { return r.fits(other(20000)) })
}
