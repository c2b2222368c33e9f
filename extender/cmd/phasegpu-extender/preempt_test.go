package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/gen/await"
)

// TestPreemption plays kube-scheduler over HTTP: Filter refuses, Preempt approves of victims that make room, the room is
// kept for the nominated pod, and it gets it.
func TestPreemption(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		"hami.io/node-nvidia-register": `[{"id":"G0","count":10,"devmem":24576,"devcore":100,"type":"A","mode":"hami-core","health":true}]`,
	}}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("10")}
	now := metav1.Now()
	holder := gpuPod("holder", 20000, 20000)
	holder.Spec.NodeName, holder.Status.StartTime, holder.Status.Phase = "n1", &now, corev1.PodRunning
	holder.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": "G0,NVIDIA,20000,0:;G0,NVIDIA,20000,0:;"}
	priority := func(pod *corev1.Pod, value int32) *corev1.Pod {
		pod.Spec.Priority = &value
		return pod
	}
	high, small, huge := priority(gpuPod("high", 12000, 8000), 1000), priority(gpuPod("small", 1, 4000), 500), priority(gpuPod("huge", 30000, 1), 1000)
	client := fake.NewClientset(node, holder, high)
	o, err := parse([]string{"--lease-name="}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := assemble(ctx, o, client, zap.NewNop())
	await.Until(t, "the books", func() bool { return e.ready() == nil && e.book.Pod("holder") != nil })
	h := httptest.NewServer(server.Extender(e.calls(), e.metrics, zap.NewNop()))
	defer h.Close()
	ask := func(verb string, args, result any) {
		t.Helper()
		body, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(h.URL+"/"+verb, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		if err := json.NewDecoder(r.Body).Decode(result); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", verb, r.Status, err)
		}
	}
	filter := func(pod *corev1.Pod) (r extenderv1.ExtenderFilterResult) {
		t.Helper()
		ask("filter", extenderv1.ExtenderArgs{Pod: pod, NodeNames: &[]string{"n1"}}, &r)
		return r
	}
	approved := func(pod *corev1.Pod, victim string) bool {
		t.Helper()
		given := map[string]*extenderv1.MetaVictims{"n1": {Pods: []*extenderv1.MetaPod{{UID: victim}}}}
		var r extenderv1.ExtenderPreemptionResult
		ask("preempt", extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: given}, &r)
		if len(r.NodeNameToMetaVictims) > 0 && !cmp.Equal(given, r.NodeNameToMetaVictims) {
			t.Errorf("asked about %s, answered %v", victim, r.NodeNameToMetaVictims)
		}
		return len(r.NodeNameToMetaVictims) > 0
	}

	if r := filter(huge); len(r.FailedNodes) > 0 || len(r.FailedAndUnresolvableNodes) != 1 {
		t.Errorf("no eviction helps: %+v", r)
	}
	want := extenderv1.FailedNodesMap{"n1": "Insufficient GPU memory in the pod's phases"}
	if r := filter(high); !cmp.Equal(want, r.FailedAndUnresolvableNodes) || len(r.FailedNodes) > 0 {
		t.Fatalf("others hold too much: %+v", r)
	}
	if approved(huge, "holder") || approved(high, "cpu") || !approved(high, "holder") {
		t.Fatal("Preempt approves of victims that make no room, or not of one that does")
	}

	// kube-scheduler deletes the victim, which takes its time, and nominates the pod.
	update := func(pod *corev1.Pod) {
		t.Helper()
		if _, err := client.CoreV1().Pods("ns").Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := filter(small) // 4000 beside 20000
	if len(*before.NodeNames) != 1 {
		t.Errorf("before anybody was nominated: %+v", before)
	}
	holder, high = holder.DeepCopy(), high.DeepCopy()
	holder.DeletionTimestamp, high.Status.NominatedNodeName = &metav1.Time{Time: now.Add(time.Minute)}, "n1"
	update(holder)
	update(high)
	await.Until(t, "the room is kept", func() bool { return len(*filter(small).NodeNames) == 0 })
	// A pod of lower priority may use what is left beside the nominated pod once the victim is gone.
	for memory, want := range map[int64]bool{12576: true, 12577: false} {
		if got := approved(priority(gpuPod("other", 1, memory), 500), "holder"); got != want {
			t.Errorf("a pod of lower priority with %d MiB: approved %t, want %t", memory, got, want)
		}
	}

	// The victim is gone.
	if err := client.CoreV1().Pods("ns").Delete(ctx, "holder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the pod fits", func() bool { return len(*filter(high).NodeNames) == 1 })
	for memory, want := range map[int64]int{12576: 1, 12577: 0} {
		if r := filter(priority(gpuPod("other", 1, memory), 500)); len(*r.NodeNames) != want {
			t.Errorf("%d MiB beside the nominated pod's 12000: %+v", memory, r)
		}
	}
	// Its nomination is taken back.
	high = high.DeepCopy()
	high.Status.NominatedNodeName = ""
	update(high)
	await.Until(t, "the room is given back", func() bool { return len(*filter(priority(gpuPod("other", 1, 20000), 500)).NodeNames) == 1 })
}
