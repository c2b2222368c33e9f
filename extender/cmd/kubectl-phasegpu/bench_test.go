package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/phasegpu/phasegpu/extender/internal/render"
)

// BenchmarkLargeCluster is what a user waits for on 5,000 nodes of 8 cards with 40,000 running pods, each with an
// init container, a sidecar and an app, from a stub API server that has its answers ready in protobuf, page by page.
func BenchmarkLargeCluster(b *testing.B) {
	server := httptest.NewTLSServer(large(b, 5000, 40_000))
	b.Cleanup(server.Close)
	access := []string{"--kubeconfig", kubeconfig(b, server), "--context", "test"}
	for _, args := range [][]string{{"top", "nodes"}, {"top", "namespaces"}, {"why", "waiting"}, {"timeline", "waiting"}} {
		b.Run(strings.Join(args[:1], " ")+"-"+args[1], func(b *testing.B) {
			for b.Loop() {
				var out, stderr bytes.Buffer
				code := run(b.Context(), append(args, access...), streams{strings.NewReader(""), &out, &stderr, render.Screen{Width: 100}, false, noon})
				if code > exitNegative || out.Len() == 0 {
					b.Fatalf("exit code %d: %s", code, stderr.String())
				}
			}
		})
	}
}

// large answers as the API server of a large cluster would.
func large(b *testing.B, nodes, pods int) http.Handler {
	const page = 500
	encode := func(object runtime.Object) []byte {
		var out bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &out); err != nil {
			b.Fatal(err)
		}
		return out.Bytes()
	}
	pages := func(n int, list func(from, to int, next string) runtime.Object) [][]byte {
		var all [][]byte
		for from := 0; from < n; from += page {
			next := ""
			if from+page < n {
				next = fmt.Sprint(len(all) + 1)
			}
			all = append(all, encode(list(from, min(from+page, n), next)))
		}
		return all
	}
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	answers := map[string][][]byte{
		"/api/v1/nodes": pages(nodes, func(from, to int, next string) runtime.Object {
			list := &corev1.NodeList{TypeMeta: kind("NodeList"), ListMeta: metav1.ListMeta{Continue: next}}
			for n := from; n < to; n++ {
				list.Items = append(list.Items, largeNode(n))
			}
			return list
		}),
		"/api/v1/pods": pages(pods, func(from, to int, next string) runtime.Object {
			list := &corev1.PodList{TypeMeta: kind("PodList"), ListMeta: metav1.ListMeta{Continue: next}}
			for n := from; n < to; n++ {
				list.Items = append(list.Items, largePod(n, nodes))
			}
			return list
		}),
	}
	waiting := largePod(pods, nodes)
	waiting.TypeMeta, waiting.Namespace, waiting.Name, waiting.Annotations, waiting.Status = kind("Pod"), "ml", "waiting", nil, corev1.PodStatus{Phase: corev1.PodPending}
	waiting.Spec.NodeName, waiting.Spec.SchedulerName = "", "phasegpu-scheduler"
	answers["/api/v1/namespaces/ml/pods/waiting"] = [][]byte{encode(&waiting)}
	for _, path := range []string{"/api/v1/resourcequotas", "/api/v1/namespaces/ml/resourcequotas"} {
		answers[path] = [][]byte{encode(&corev1.ResourceQuotaList{TypeMeta: kind("ResourceQuotaList")})}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &at)
		answer := answers[r.URL.Path]
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_, _ = w.Write(answer[at])
	})
}

// ballast is what a real object has besides, and nobody here reads: managed fields, images, environment.
var ballast = []metav1.ManagedFieldsEntry{{
	Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
	FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{` + strings.Repeat(`"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{}}},`, 20) + `"f:phase":{}}}`)},
}}

func largeNode(n int) corev1.Node {
	var inventory []string
	for d := range 8 {
		inventory = append(inventory, fmt.Sprintf(`{"id":"GPU-%05d-%d","index":%d,"count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100-SXM4-40GB","numa":%d,"mode":"hami-core","health":true}`, n, d, d, d/4))
	}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%05d", n), ManagedFields: ballast,
		Annotations: map[string]string{"hami.io/node-nvidia-register": "[" + strings.Join(inventory, ",") + "]"},
	}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(80, resource.DecimalSI)}
	for i := range 30 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", i, i)}, SizeBytes: 1 << 30})
	}
	return node
}

// largePod is the pod that fills card n/nodes of node n%nodes, in its first phase if n is odd.
func largePod(n, nodes int) corev1.Pod {
	uuid := fmt.Sprintf("GPU-%05d-%d", n%nodes, n/nodes%8)
	env := []corev1.EnvVar{}
	for i := range 10 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: "some value that is not short"})
	}
	container := func(name string, memory int64) corev1.Container {
		return corev1.Container{Name: name, Image: "registry.example.com/team/" + name, Env: env, Resources: limitsOf(memory)}
	}
	always := corev1.ContainerRestartPolicyAlways
	cache := container("cache", 2048)
	cache.RestartPolicy = &always
	now := metav1.NewTime(time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC))
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", n%200), Name: fmt.Sprintf("pod-%06d", n), UID: types.UID(fmt.Sprint("uid-", n)), ManagedFields: ballast, ResourceVersion: fmt.Sprint(n + 1),
			Annotations: map[string]string{"hami.io/vgpu-devices-allocated": fmt.Sprintf("%s,NVIDIA,36000,0:;%s,NVIDIA,2048,0:;%s,NVIDIA,30000,40:;", uuid, uuid, uuid)},
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%05d", n%nodes), InitContainers: []corev1.Container{container("load", 36000), cache}, Containers: []corev1.Container{container("serve", 30000)}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now},
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if n%2 == 1 {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "load", State: running}}
	} else {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "serve", State: running}}
	}
	return pod
}

func limitsOf(memoryMiB int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"nvidia.com/gpu": *resource.NewQuantity(1, resource.DecimalSI), "nvidia.com/gpumem": *resource.NewQuantity(memoryMiB, resource.DecimalSI),
	}}
}
