package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/baseline"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// quotaMiB is far above what a tenth of the largest cluster's pods hold.
const quotaMiB = 1 << 30

// BenchmarkAdmission is one review of a pod with devices, HTTP handler in to out, in a namespace with a quota, over
// clusters of nodes with 8 devices and 8 pods each. The baseline adds up the namespace's pods on each review.
func BenchmarkAdmission(b *testing.B) {
	pod := baseline.Pod("new", 6000, 1000, 4000)
	pod.Spec.SchedulerName = ""
	review := reviewOf(b, pod)
	review.Request.Namespace = pod.Namespace
	body, err := json.Marshal(review)
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{100, 1000, 5000} {
		c := baseline.New(nodes, 8)
		name := fmt.Sprintf("nodes=%d/pods=%d", nodes, len(c.Pods))
		b.Run(name+"/by=phasegpu", func(b *testing.B) {
			book := c.Book()
			q := newQuota("gpu", "limits.nvidia.com/gpumem", fmt.Sprint(quotaMiB))
			q.Namespace = pod.Namespace
			limits, err := kube.Quota(q)
			if err != nil {
				b.Fatal(err)
			}
			book.SetQuota(limits)
			serveReviews(b, body, &Handler{
				Policy: Policy{Book: book, Feed: synced(true)}, Metrics: NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(),
			})
		})
		b.Run(name+"/by=peer", func(b *testing.B) {
			accountant := c.Accountant()
			serveReviews(b, body, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var review admissionv1.AdmissionReview
				var pod corev1.Pod
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				used := accountant.Sum().Namespaces[review.Request.Namespace].MemoryMiB
				for _, ask := range baseline.Asks(&pod) {
					used += ask.MemoryMiB
				}
				patchType := admissionv1.PatchTypeJSONPatch
				response := &admissionv1.AdmissionResponse{
					UID: review.Request.UID, Allowed: used <= quotaMiB, PatchType: &patchType,
					Patch: []byte(`[{"op":"add","path":"/spec/schedulerName","value":"phasegpu-scheduler"}]`),
				}
				_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
			}))
		})
	}
}

func serveReviews(b *testing.B, body []byte, h http.Handler) {
	for b.Loop() {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/mutate", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`)) {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
