package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/phasegpu/phasegpu/gen/baseline"
)

// BenchmarkCommand is what a user waits for on 5,000 nodes of 8 cards with 40,000 running pods, each with an
// init container, a sidecar and an app, from a stub API server that has its answers ready in protobuf, page by page.
func BenchmarkCommand(b *testing.B) {
	const nodes, pods = 5000, 40_000
	server := httptest.NewTLSServer(large(b, nodes, pods))
	b.Cleanup(server.Close)
	access := access(b, server)
	for _, args := range [][]string{{"top", "nodes"}, {"top", "namespaces"}, {"why", "waiting"},
		{"timeline", "waiting"}} {
		b.Run(fmt.Sprintf("command=%s/nodes=%d/pods=%d/by=phasegpu", strings.Join(args, "-"), nodes, pods),
			func(b *testing.B) {
				for b.Loop() {
					var out, stderr bytes.Buffer
					code := run(b.Context(), append(args, access...), plain("", &out, &stderr))
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
	cluster := baseline.New(nodes, pods/nodes)
	objects, err := cluster.Objects()
	if err != nil {
		b.Fatal(err)
	}
	answers := map[string][][]byte{
		"/api/v1/nodes": pages(nodes, func(from, to int, next string) runtime.Object {
			list := &corev1.NodeList{TypeMeta: kind("NodeList"), ListMeta: metav1.ListMeta{Continue: next}}
			for _, node := range objects[from:to] {
				for i := range 30 { // which make up most of a node
					node.Status.Images = append(node.Status.Images,
						corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example/team/image-%d@sha256:%064d",
							i, i)}})
				}
				list.Items = append(list.Items, *node)
			}
			return list
		}),
		"/api/v1/pods": pages(len(cluster.Pods), func(from, to int, next string) runtime.Object {
			list := &corev1.PodList{TypeMeta: kind("PodList"), ListMeta: metav1.ListMeta{Continue: next}}
			for _, pod := range cluster.Pods[from:to] {
				list.Items = append(list.Items, *pod)
			}
			return list
		}),
	}
	waiting := baseline.Pod("waiting", 2000, 1000, 23000)
	waiting.TypeMeta, waiting.Namespace = kind("Pod"), "ml"
	answers["/api/v1/namespaces/ml/pods/waiting"] = [][]byte{encode(waiting)}
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
