package decide

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// Reads ask for what is true now, and the patch names the pod as it was read and nothing but the record.
func TestRequestsToTheAPIServer(t *testing.T) {
	type request struct{ Method, URL, Type, Body string }
	var got []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, request{r.Method, r.URL.String(), r.Header.Get("Content-Type"), string(body)})
		w.Header().Set("Content-Type", "application/json")
		_,
			_ = io.WriteString(w,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"team","name":"p","uid":"u","resourceVersion":"8"}}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	api := API{client.CoreV1()}
	pod, err := api.Pod(t.Context(), "team", "p")
	if err != nil {
		t.Fatal(err)
	}
	_, nodeErr := api.Node(t.Context(), "node")
	_, listErr := api.PodsOn(t.Context(), "node")
	if err := errors.Join(nodeErr, listErr, api.Annotate(t.Context(), pod, rt.Record, "G,NVIDIA,1,0:;")); err != nil {
		t.Fatal(err)
	}
	want := []request{
		{Method: "GET", URL: "/api/v1/namespaces/team/pods/p"},
		{Method: "GET", URL: "/api/v1/nodes/node"},
		{Method: "GET", URL: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode"},
		{
			Method: "PATCH", URL: "/api/v1/namespaces/team/pods/p", Type: "application/merge-patch+json",
			Body: `{"metadata":{"uid":"u","resourceVersion":"8","annotations":{"hami.io/vgpu-devices-allocated":"G,NVIDIA,1,0:;"}}}`,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
