package admission

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/yamltest"
)

// uid is that of every review in these tests.
const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"

// newHandler returns a handler over books with these quotas.
func newHandler(t testing.TB, quotas ...*corev1.ResourceQuota) (*Handler, *prometheus.Registry) {
	t.Helper()
	book := ledger.New()
	for _, q := range quotas {
		limits, err := kube.Quota(q)
		if err != nil {
			t.Fatal(err)
		}
		book.SetQuota(limits)
	}
	registry := prometheus.NewRegistry()
	return &Handler{
		Policy:  Policy{Book: book, Feed: synced(true)},
		Metrics: NewMetrics(registry),
		Log:     zap.NewNop(),
	}, registry
}

// synced is a feed that has read all there is, or has not.
type synced bool

func (s synced) Synced() bool { return bool(s) }

// podFrom reads a pod as YAML.
func podFrom(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	pod := yamltest.Read[corev1.Pod](t, text)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod
}

// reviewOf returns what the API server asks about the creation of a pod, after setting requests from
// limits and the name of the scheduler as it does.
func reviewOf(t testing.TB, pod *corev1.Pod) *admissionv1.AdmissionReview {
	t.Helper()
	pod = pod.DeepCopy()
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, q := range r.Limits {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				if _, ok := r.Requests[name]; !ok {
					r.Requests[name] = q
				}
			}
		}
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	dryRun := false
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:             uid,
			Kind:            metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:        metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			RequestKind:     &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			RequestResource: &metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name:            pod.Name,
			Namespace:       "team",
			Operation:       admissionv1.Create,
			UserInfo:        authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}},
			Object:          runtime.RawExtension{Raw: raw},
			DryRun:          &dryRun,
			Options:         runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	}
}

// post sends a body over TLS and returns the answer.
func post(t testing.TB, h http.Handler, contentType string, body []byte) (code int, answer []byte) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/mutate", contentType, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// ask sends a review and returns the response in the answer, which must be one that the API server
// takes.
func ask(t testing.TB, h http.Handler, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	code, answer := post(t, h, "application/json", body)
	if code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", code, answer)
	}
	return response(t, review, answer)
}

// response checks an answer as the API server does.
func response(t testing.TB, review *admissionv1.AdmissionReview, answer []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	got := &admissionv1.AdmissionReview{}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(got); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	r := got.Response
	switch {
	case got.TypeMeta != review.TypeMeta:
		t.Errorf("the answer is %v, asked was %v", got.TypeMeta, review.TypeMeta)
	case r == nil:
		t.Fatalf("no response in %s", answer)
	case r.UID != review.Request.UID:
		t.Errorf("uid %q, want %q", r.UID, review.Request.UID)
	case (len(r.Patch) > 0) != (r.PatchType != nil):
		t.Errorf("patch and patchType must come together: %s", answer)
	case !r.Allowed && (r.Result == nil || r.Result.Message == "" || r.Result.Code < 400 || len(r.Patch) > 0):
		t.Errorf("a refusal needs a message and a code, and no patch: %s", answer)
	}
	return r
}

// patchedPod returns what a response makes of the pod that was asked about.
func patchedPod(t testing.TB, review *admissionv1.AdmissionReview, r *admissionv1.AdmissionResponse) *corev1.Pod {
	t.Helper()
	raw := review.Request.Object.Raw
	if len(r.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(r.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			t.Fatalf("%v: %s", err, r.Patch)
		}
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
