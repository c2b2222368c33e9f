package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// TestMemory: a pod with devices costs a feed and its book less than a kilobyte, and one without nothing.
func TestMemory(t *testing.T) {
	empty := footprint(t, 0, 0)
	plain := (footprint(t, 6000, 0) - empty) / 6000
	tracked := (footprint(t, 0, 1500) - empty) / 1500
	t.Logf("%d bytes for a pod without devices, %d for one with", plain, tracked)
	if plain > 20 { // what else the heap has by chance
		t.Errorf("a pod without devices takes %d bytes", plain)
	}
	if tracked > 1024 {
		t.Errorf("a pod with devices takes %d bytes", tracked)
	}
}

// footprint is the bytes of heap that a feed takes with its book, once it is synced with an API server that has
// so many pods.
func footprint(tb testing.TB, plain, tracked int) int {
	tb.Helper()
	server := httptest.NewServer(&crowd{plain: plain, tracked: tracked})
	defer server.Close()
	defer server.CloseClientConnections()
	client := kubernetes.NewForConfigOrDie(kube.Config(&rest.Config{Host: server.URL, QPS: -1}))
	before := heap()
	book := ledger.New()
	f := kube.NewFeed(client, book, kube.FeedOptions{})
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(tb.Context())
	go func() { _ = f.Run(ctx); close(done) }()
	await.Until(tb, "the feed to be synced", f.Synced)
	if n := len(book.Pods()); n != tracked {
		tb.Fatalf("%d pods in the books, want %d", n, tracked)
	}
	used := heap() - before
	goruntime.KeepAlive(f)
	goruntime.KeepAlive(book)
	cancel()
	<-done
	return used
}

func heap() int {
	goruntime.GC()
	goruntime.GC() // what has a finalizer goes in the second
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// crowd is an API server that streams so many bound pods, in protobuf and made up as it goes, so that it keeps
// none itself, and no changes.
type crowd struct{ plain, tracked int }

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "true" || !strings.Contains(r.Header.Get("Accept"), "protobuf") {
		http.Error(w, "only streams in protobuf", http.StatusNotAcceptable)
		return
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	out := restwatch.NewEncoder(
		streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(w), scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)),
		scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion))
	end := metav1.ObjectMeta{ResourceVersion: "9000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	var bookmark runtime.Object = &corev1.ResourceQuota{ObjectMeta: end}
	switch {
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		bookmark = &corev1.Node{ObjectMeta: end}
		for i := range numNodes {
			var cards []string
			for k := range 8 {
				cards = append(cards, strings.Trim(card(uuid(i, k)), "[]"))
			}
			n := node(nvidiaList, "["+strings.Join(cards, ",")+"]")
			n.Name = nodeName(i)
			if out.Encode(&watch.Event{Type: watch.Added, Object: n}) != nil {
				return
			}
		}
	case strings.HasSuffix(r.URL.Path, "/pods"):
		bookmark = &corev1.Pod{ObjectMeta: end}
		for i := range c.plain {
			if out.Encode(&watch.Event{Type: watch.Added, Object: realistic(i, false)}) != nil {
				return
			}
		}
		for i := range c.tracked {
			if out.Encode(&watch.Event{Type: watch.Added, Object: realistic(i, true)}) != nil {
				return
			}
		}
	}
	_ = out.Encode(&watch.Event{Type: watch.Bookmark, Object: bookmark})
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

const numNodes = 500

func nodeName(i int) string { return fmt.Sprintf("gpu-node-%05d.example.internal", i%numNodes) }

func uuid(i, k int) string { return fmt.Sprintf("GPU-%08x-483b-b48f-d7e5-%012x", i%numNodes, k%8) }

// realistic is a pod with all that a pod of a Deployment carries: init container, sidecar and app, each with
// devices if it has any.
func realistic(i int, devices bool) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%03d", i%100), Name: fmt.Sprintf("training-%v-5d4f8c7b9d-%06d", devices, i),
			UID:             types.UID(fmt.Sprintf("550e8400-e29b-41d4-a716-%011d%d", i, len(fmt.Sprint(devices)))),
			ResourceVersion: fmt.Sprint(1_000_000 + i),
			Labels:          map[string]string{"app.kubernetes.io/name": "training", "pod-template-hash": "5d4f8c7b9d"},
			Annotations:     map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-29T23:00:00Z", "example.com/note": strings.Repeat("x", 500)},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:a":{}}`, 100))}},
		},
		Spec: corev1.PodSpec{
			NodeName:       nodeName(i),
			InitContainers: containers{{Name: "load"}, {Name: "cache", RestartPolicy: &always}},
			Containers:     containers{{Name: "train"}},
			Volumes:        []corev1.Volume{{Name: "data"}, {Name: "config"}, {Name: "kube-api-access"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	if devices {
		pod.Annotations[nvidiaRecord] = fmt.Sprintf("%s,NVIDIA,8000,10:;%s,NVIDIA,500,10:;%s,NVIDIA,2000,10:;", uuid(i, i), uuid(i, i), uuid(i, i+1))
	}
	dress := func(c *corev1.Container) {
		c.Image = "registry.example.com/team/training:2026.11"
		c.Env = []corev1.EnvVar{{Name: "DATA", Value: "/data"}, {Name: "MODE", Value: "train"}}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}
		if devices {
			c.Resources.Limits["nvidia.com/gpu"], c.Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("1"), resource.MustParse("8000")
		}
		c.Resources.Requests = c.Resources.Limits
	}
	for k := range pod.Spec.InitContainers {
		dress(&pod.Spec.InitContainers[k])
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, running(pod.Spec.InitContainers[k].Name, k))
	}
	dress(&pod.Spec.Containers[0])
	pod.Status.ContainerStatuses = statuses{running("train", 3)}
	return pod
}
