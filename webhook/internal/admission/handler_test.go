package admission

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const plainPod = `
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`

// Bodies that are no AdmissionReview are HTTP errors that say what is wrong.
func TestHTTPErrors(t *testing.T) {
	h, registry := newHandler(t)
	review, err := json.Marshal(reviewOf(t, podFrom(t, plainPod)))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		contentType, body string
		code              int
		want              string
	}{
		"other content type": {"text/plain", string(review), 415, "application/json"},
		"no content type":    {"", string(review), 415, "application/json"},
		"empty":              {"application/json", "", 400, "no AdmissionReview"},
		"not JSON":           {"application/json", "kind: Pod", 400, "no AdmissionReview"},
		"truncated":          {"application/json", string(review[:len(review)-9]), 400, "no AdmissionReview"},
		"two reviews":        {"application/json", string(review) + string(review), 400, "no AdmissionReview"},
		"null":               {"application/json", "null", 400, "send an AdmissionReview of admission.k8s.io/v1"},
		"a pod":              {"application/json", `{"apiVersion":"v1","kind":"Pod"}`, 400, "send an AdmissionReview"},
		"another review":     {"application/json", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"x"}}`, 400, "apiextensions.k8s.io/v1 ConversionReview"},
		"no request":         {"application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "no request"},
		"no uid":             {"application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE"}}`, 400, "uid"},
		"a list":             {"application/json", `[]`, 400, "no AdmissionReview"},
		"too large":          {"application/json", `{"apiVersion":"` + strings.Repeat("x", maxBody) + `"}`, 413, "larger than 7340032 bytes"},
		"deep":               {"application/json", strings.Repeat("[", 1<<20), 400, "no AdmissionReview"},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := post(t, h, test.contentType, []byte(test.body))
			if code != test.code || !strings.Contains(string(answer), test.want) {
				t.Errorf("HTTP %d %s, want %d with %q", code, answer, test.code, test.want)
			}
		})
	}
	if got := counts(t, registry); got["error http"] != 14 || len(got) != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestLargestBodyIsRead(t *testing.T) {
	h, _ := newHandler(t)
	review := reviewOf(t, podFrom(t, plainPod))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	body = append(body, bytes.Repeat([]byte(" "), maxBody-len(body))...)
	if code, answer := post(t, h, "application/json; charset=utf-8", body); code != 200 || !response(t, review, answer).Allowed {
		t.Errorf("HTTP %d %s", code, answer)
	}
}

// Whatever else a wrong rule sends here is refused in words that tell the operator what to mend.
func TestWrongRules(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*admissionv1.AdmissionReview)
		want   string
	}{
		"another version of the review": {func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }, "admission.k8s.io/v1beta1: set its admissionReviewVersions to [v1]"},
		"update":                        {func(r *admissionv1.AdmissionReview) { r.Request.Operation = admissionv1.Update }, "UPDATE of v1 pods"},
		"delete, without an object": {func(r *admissionv1.AdmissionReview) {
			r.Request.Operation, r.Request.Object.Raw = admissionv1.Delete, nil
		}, "DELETE of v1 pods"},
		"subresource": {func(r *admissionv1.AdmissionReview) { r.Request.SubResource = "binding" }, "CREATE of v1 pods/binding"},
		"another resource": {func(r *admissionv1.AdmissionReview) {
			r.Request.Resource = metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
			r.Request.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
		}, "CREATE of apps/v1 deployments (kind Deployment)"},
		"another kind":    {func(r *admissionv1.AdmissionReview) { r.Request.Kind.Kind = "Binding" }, "kind Binding"},
		"no resource":     {func(r *admissionv1.AdmissionReview) { r.Request.Resource = metav1.GroupVersionResource{} }, "set its rules"},
		"no object":       {func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = nil }, "no pod"},
		"object no pod":   {func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = []byte(`{"spec":{"containers":7}}`) }, "no pod"},
		"object a string": {func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = []byte(`"pod"`) }, "no pod"},
	} {
		t.Run(name, func(t *testing.T) {
			h, registry := newHandler(t)
			review := reviewOf(t, podFrom(t, plainPod))
			test.change(review)
			r := ask(t, h, review)
			if got := counts(t, registry); got["error rule"]+got["denied object"] != 1 {
				t.Errorf("counted %v", got)
			}
			if r.Allowed || r.Result.Code != 400 || !strings.Contains(r.Result.Message, test.want) {
				t.Errorf("allowed %v, %+v, want %q", r.Allowed, r.Result, test.want)
			}
		})
	}
}

type broken struct{}

func (broken) Synced() bool { panic("out of order") }

func TestPanicIsAnswered(t *testing.T) {
	h, registry := newHandler(t)
	core, logs := observer.New(zap.ErrorLevel)
	h.Log = zap.New(core)
	h.Policy.Feed = broken{}
	r := ask(t, h, reviewOf(t, podFrom(t, plainPod)))
	if r.Allowed || r.Result.Code != 500 || !strings.Contains(r.Result.Message, "out of order") {
		t.Errorf("allowed %v, %+v", r.Allowed, r.Result)
	}
	if logs.Len() != 1 || counts(t, registry)["denied panic"] != 1 {
		t.Errorf("logged %v, counted %v", logs.All(), counts(t, registry))
	}
}

func TestEachRequestIsCountedAndEachRefusalLoggedOnce(t *testing.T) {
	h, registry := newHandler(t, newQuota("gpu", "limits.nvidia.com/gpumem", "1000"))
	core, logs := observer.New(zap.InfoLevel)
	h.Log = zap.New(core)
	pod := func(more string) string {
		return "metadata: {name: p}\nspec: {" + more + "containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 2000}}}]}"
	}
	for _, text := range []string{
		"metadata: {name: p}\nspec: {containers: [{name: a}]}",
		plainPod, plainPod,
		pod(""), pod("nodeName: n, "), pod("schedulerName: s, "),
	} {
		ask(t, h, reviewOf(t, podFrom(t, text)))
	}
	want := map[string]float64{"allowed none": 1, "patched none": 2, "denied quota": 1, "denied node_name": 1, "denied scheduler": 1}
	if diff := cmp.Diff(want, counts(t, registry)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if logs.Len() != 3 {
		t.Errorf("%d lines for three refusals: %v", logs.Len(), logs.All())
	}
	if n, err := testutil.GatherAndCount(registry, "phasegpu_webhook_admission_duration_seconds"); n != 1 || err != nil {
		t.Errorf("durations: %d, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); len(problems) > 0 || err != nil {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// counts returns the requests counted, by "result reason", of which there were any.
func counts(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "phasegpu_webhook_admission_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if n := m.GetCounter().GetValue(); n > 0 {
				got[labels["result"]+" "+labels["reason"]] = n
			}
		}
	}
	return got
}

// Whatever the body, the answer is an HTTP error or an AdmissionReview that the API server takes.
func FuzzBody(f *testing.F) {
	review, err := json.Marshal(reviewOf(f, podFrom(f, plainPod)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(review)
	h, _ := newHandler(f, newQuota("gpu", "limits.nvidia.com/gpumem", "10000"))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/mutate", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
		if w.Code >= 400 && w.Code < 500 {
			return
		}
		asked := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(body, asked); err != nil || w.Code != 200 {
			t.Fatalf("HTTP %d to what is no AdmissionReview (%v): %s", w.Code, err, w.Body)
		}
		got := response(t, asked, w.Body.Bytes())
		if !got.Allowed && got.Result.Code >= 500 {
			t.Errorf("failed: %s", got.Result.Message)
		}
		if len(got.Patch) > 0 {
			patchedPod(t, asked, got)
		}
	})
}
