package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/kube"
)

func TestOptions(t *testing.T) {
	o, err := parse([]string{"--node-policy=spread", "--device-policy", "binpack", "--release=hold", "--identity=host"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := podrequest.Defaults{NodePolicy: placement.Spread, DevicePolicy: placement.Binpack, Release: phase.Hold}
	if diff := cmp.Diff(want, o.defaults); diff != "" || o.identity != "host" || o.bindTimeout != 15*time.Second || o.listen != "127.0.0.1:8888" {
		t.Errorf("%s, %+v", diff, o)
	}
	if diff := cmp.Diff(events.Reasons(), o.events); diff != "" {
		t.Errorf("events by default: %s", diff)
	}
	if o, err := parse([]string{"--events=GPUReleased, GPUOvercommitted"}, io.Discard); err != nil || !slices.Equal(o.events, []string{"GPUReleased", "GPUOvercommitted"}) {
		t.Errorf("%v, %v", o, err)
	}
	if o, err := parse([]string{"--events="}, io.Discard); err != nil || len(o.events) > 0 {
		t.Errorf("%v, %v", o, err)
	}
	for _, bad := range [][]string{{"--node-policy=tetris"}, {"--events=GPUReleased,all"}, {"--release=never"}, {"--bind-timeout=0s"}, {"--qps=0"}, {"extra"}, {"--no-such-flag"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func gpuPod(name string, init, app int64) *corev1.Pod {
	asks := func(name string, mib int64) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
		}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{asks("init", init)}, Containers: []corev1.Container{asks("app", app)}},
	}
}

// The parts together: what the watch shows reaches books, gate, wake-up and events.
func TestAssembled(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		"hami.io/node-nvidia-register": `[{"id":"G0","count":10,"devmem":24576,"devcore":100,"type":"A","mode":"hami-core","health":true}]`,
	}}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("10")}
	holder := gpuPod("holder", 20480, 10240)
	holder.Spec.NodeName = "n1"
	holder.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": "G0,NVIDIA,20480,0:;G0,NVIDIA,10240,0:;"}
	waiting := gpuPod("waiting", 12288, 12288)
	client := fake.NewClientset(node, holder, waiting)
	// The fake loses what happens between an informer's list and its watch.
	watching := make(chan struct{})
	client.PrependWatchReactor("pods", func(a k8stesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(corev1.SchemeGroupVersion.WithResource("pods"), "")
		if a.(k8stesting.WatchAction).GetWatchRestrictions().Fields.String() == "spec.nodeName!=" { // not that of nominated pods
			close(watching)
		}
		return true, w, err
	})
	o, err := parse([]string{"--lease-name="}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := assemble(ctx, o, client, zap.NewNop())
	await.Until(t, "the books", func() bool { return e.ready() == nil })
	<-watching
	if err := e.lead.May(ctx); err != nil { // waits for the consistent list
		t.Fatal(err)
	}
	filter := func() *extenderv1.ExtenderFilterResult {
		return e.calls().Filter(ctx, &extenderv1.ExtenderArgs{Pod: waiting, NodeNames: &[]string{"n1"}})
	}
	if r := filter(); r.FailedAndUnresolvableNodes["n1"] != "Insufficient GPU memory in the pod's phases" {
		t.Fatalf("got %+v", r)
	}
	// The page shows all of it: the holder, its gate and the pod that waits.
	shown := httptest.NewRecorder()
	e.site(o).ServeHTTP(shown, httptest.NewRequest(http.MethodGet, "/ui/state.json?view=gates", nil))
	for _, want := range []string{`"release":"per-init","refused":1,`, `"pods":{"all":1,"shown":1}`, `{"node":"n1","inside":["ns/holder"],"waiting":0,`} {
		if !strings.Contains(shown.Body.String(), want) {
			t.Errorf("the page has no %s: %s", want, shown.Body)
		}
	}
	// The holder is in the gate until kubelet reports on it.
	if room := len(e.gate.States()); room != 1 {
		t.Errorf("%d gates", room)
	}
	now := metav1.Now()
	update := func(change func(*corev1.Pod)) {
		holder = holder.DeepCopy()
		change(holder)
		if _, err := client.CoreV1().Pods("ns").Update(ctx, holder, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}},
		}}
	})
	await.Until(t, "a nudge", func() bool { return strings.Contains(patches(client), `"phasegpu.io/nudge"`) })
	if r := filter(); len(*r.NodeNames) != 1 {
		t.Errorf("after the release: %+v", r)
	}
	if len(e.gate.States()) != 0 {
		t.Error("the gate is still shut")
	}
	// Its memory goes to another, and its containers run again.
	other := gpuPod("other", 12288, 12288)
	other.Spec.NodeName = "n1"
	other.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": "G0,NVIDIA,12288,0:;G0,NVIDIA,12288,0:;"}
	if _, err := client.CoreV1().Pods("ns").Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the other pod", func() bool { return e.book.Pod("other") != nil })
	update(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	})
	var told map[string]string // by reason
	await.Until(t, "the events", func() bool {
		events, err := client.EventsV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told = map[string]string{}
		for _, e := range events.Items {
			told[e.Reason] += e.Type + " " + e.Regarding.Name + " " + e.Note
		}
		return len(told) > 1
	})
	// Of what was there when the extender began nothing is told.
	want := map[string]string{
		"GPUReleased":      "Normal holder after init container init: GPU G0 10240 MiB, was 20480 MiB",
		"GPUOvercommitted": "Warning holder its containers run again and can use more of GPU G0 of node n1 than is left: 2 slots, 32768 MiB, 0% cores reserved of 10 slots, 24576 MiB, 100% cores; nothing more is placed there until that falls",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// Both extenders see what happens to pods; the one that leads tells, and nothing of what was before.
func TestOnlyTheLeaderTells(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	o, err := parse([]string{"--identity=me"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := assemble(ctx, o, client, zap.NewNop())
	await.Until(t, "the books", func() bool { return e.ready() == nil })
	changes := func() string {
		families, err := e.metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if n := m.GetCounter().GetValue(); n > 0 && (f.GetName() == "phasegpu_reservation_changes_total" || f.GetName() == "phasegpu_events_total") {
					all = append(all, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", n))
				}
			}
		}
		return strings.Join(all, ", ")
	}
	now := metav1.Now()
	live := func(name string) {
		t.Helper()
		pod := gpuPod(name, 2000, 1000)
		pod.Spec.NodeName = "n1"
		pod.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": "G0,NVIDIA,2000,0:;G0,NVIDIA,1000,0:;"}
		old := pod.DeepCopy()
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}},
		}}
		e.ObservePod(nil, old, nil, e.book.Observe(kube.LedgerPod(old, o.defaults.Release)))
		before := e.book.Pod(name)
		e.ObservePod(old, pod, before, e.book.Observe(kube.LedgerPod(pod, o.defaults.Release)))
	}
	live("before")
	if got := changes(); got != "" {
		t.Errorf("beside a scheduler that does not lead: %s", got)
	}
	holder, seconds := "me_1", int32(3600)
	e.lead.Observe(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now.Time}}})
	if got := changes(); got != "" {
		t.Errorf("in office: %s", got)
	}
	live("after")
	if got := changes(); got != "GPUReleased 1, released 1" {
		t.Errorf("then: %s", got)
	}
}

func patches(client *fake.Clientset) string {
	var all strings.Builder
	for _, action := range client.Actions() {
		if p, ok := action.(k8stesting.PatchAction); ok {
			all.WriteString(p.GetName() + string(p.GetPatch()))
		}
	}
	return all.String()
}
