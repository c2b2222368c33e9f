package scenarios_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// bodies that no API server and no kube-scheduler would send.
func bodies(t *testing.T, p *scenarios.Play) {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: trusting(p)}}
	defer client.CloseIdleConnections()
	const isJSON = "application/json"
	deep := strings.Repeat("[", 100_000)
	mutate := p.Cluster.WebhookURL + "/mutate"
	extender := p.Cluster.ExtenderURL
	before := p.Books().Generation
	for _, c := range []struct {
		method, url, contentType, body string
		code                           int
		word                           string
	}{
		{"POST", mutate, isJSON, "", 400, "AdmissionReview"},
		{"POST", mutate, isJSON, "garbage", 400, "AdmissionReview"},
		{"POST", mutate, isJSON, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"x"`,
			400, "AdmissionReview"},
		{"POST", mutate, isJSON, deep, 400, "AdmissionReview"},
		{"POST", mutate, isJSON, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, 400, "no request"},
		{"POST", mutate, isJSON, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`, 400,
			"uid"},
		{"POST", mutate, isJSON, `{"kind":"Pod","apiVersion":"v1"}`, 400, "Pod"},
		{"POST", mutate, isJSON, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}`, 400,
			"ConversionReview"},
		{"POST", mutate, isJSON, `null`, 400, "AdmissionReview"},
		{"POST", mutate, "text/plain", "{}", 415, isJSON},
		{"POST", mutate, "", "{}", 415, isJSON},
		{"POST", mutate, isJSON, strings.Repeat(" ", 7<<20+1), 413, "larger"},
		{"POST", p.Cluster.WebhookURL + "/other", isJSON, "{}", 404, ""},

		{"POST", extender + "/filter", isJSON, "", 400, "JSON"},
		{"POST", extender + "/filter", isJSON, "garbage", 400, "JSON"},
		{"POST", extender + "/filter", isJSON, `{"Pod":{"metadata":`, 400, "JSON"},
		{"POST", extender + "/filter", isJSON, `{"Pod":[]}`, 400, "JSON"},
		{"POST", extender + "/filter", isJSON, `[]`, 400, "JSON"},
		{"POST", extender + "/filter", isJSON, deep, 400, "JSON"},
		{"POST", extender + "/filter", "text/plain", "{}", 415, isJSON},
		{"POST", extender + "/filter", isJSON, strings.Repeat(" ", 8<<20+1), 413, "larger"},
		{"POST", extender + "/filter", isJSON, `{}`, 200, "no Pod"},
		{"POST", extender + "/filter", isJSON, `null`, 200, "no Pod"},
		{"POST", extender + "/filter", isJSON, `{"Pod":{}}`, 200, "nodeCacheCapable"},
		{"POST", extender + "/filter", isJSON, filterArgs(p, `"16Gi"`, `["good"]`), 200, "16384"},
		{"POST", extender + "/filter", isJSON, filterArgs(p, `"1000"`, `["no-such-node","","good\u0000"]`), 200,
			"not known"},
		{"POST", extender + "/filter", isJSON, filterArgs(p, `"1000"`, `[]`), 200, `"NodeNames":[]`},
		{"POST", extender + "/prioritize", isJSON, "garbage", 400, "JSON"},
		{"POST", extender + "/prioritize", isJSON, `{}`, 200, "[]"},
		{"POST", extender + "/bind", isJSON, "garbage", 400, "JSON"},
		{"POST", extender + "/bind", isJSON, strings.Repeat(" ", 8<<20+1), 413, "larger"},
		{"POST", extender + "/bind", isJSON, `{}`, 200, "Error"},
		{"POST", extender + "/bind", isJSON,
			`{"PodName":"a","PodNamespace":"../../../nodes","PodUID":"x","Node":"good"}`, 200, "Error"},
		{"POST", extender + "/bind", isJSON,
			`{"PodName":"a","PodNamespace":"default","PodUID":"x","Node":"no-such-node"}`, 200, "Error"},
		{"GET", extender + "/filter", isJSON, "", 405, ""},
		{"POST", extender + "/preempt", isJSON, "garbage", 400, "JSON"},
		{"POST", extender + "/preempt", isJSON, `{"NodeNameToMetaVictims":[]}`, 400, "JSON"},
		{"POST", extender + "/preempt", isJSON, strings.Repeat(" ", 8<<20+1), 413, "larger"},
		{"POST", extender + "/preempt", isJSON, `{}`, 400, "no Pod"},
		{"POST", extender + "/preempt", isJSON, `{"Pod":{}}`, 400, "NodeNameToMetaVictims"},
		{"POST", extender + "/preempt", isJSON, `{"Pod":{},"NodeNameToMetaVictims":{"good":null}}`, 400, "null"},
		{"POST", extender + "/preempt", isJSON, `{"Pod":{},"NodeNameToMetaVictims":{"good":{"Pods":[null]}}}`, 400,
			"no UID"},
		{"POST", extender + "/preempt", isJSON, `{"Pod":{},"NodeNameToVictims":{"good":{"Pods":[null]}}}`, 400, "null"},
		{"POST", extender + "/preempt", isJSON,
			preemptArgs(p, `{"no-such-node":{"Pods":[{"UID":"x"}]},"good":{"Pods":[{"UID":"x"}]}}`), 200,
			`{"good":{"Pods":[{"UID":"x"}]`},
	} {
		what := fmt.Sprintf("%s %s %q %.80q", c.method, c.url, c.contentType, c.body)
		code, text, err := send(p.Context(), client, c.method, c.url, c.contentType, c.body)
		switch {
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case code != c.code || !strings.Contains(text, c.word):
			t.Errorf("%s: %d %.300q, want %d and %q", what, code, text, c.code, c.word)
		case len(text) > 2000:
			t.Errorf("%s: the answer has %d bytes", what, len(text))
		}
	}

	// Reviews that a wrong rule would send are answered, and refused with what to change.
	for _, c := range []struct{ what, kind, resource, subresource, operation, object, word string }{
		{"a Deployment", "Deployment", "deployments", "", "CREATE", `{"kind":"Deployment"}`, "deployments"},
		{"an update", "Pod", "pods", "", "UPDATE", `{"kind":"Pod"}`, "UPDATE"},
		{"a deletion", "Pod", "pods", "", "DELETE", `null`, "DELETE"},
		{"a binding", "Binding", "pods", "binding", "CREATE", `{"kind":"Binding"}`, "pods/binding"},
		{"a pod that is none", "Pod", "pods", "", "CREATE", `{"spec":{"containers":7}}`, "no pod"},
		{"no pod", "Pod", "pods", "", "CREATE", `"pod"`, "no pod"},
		{"a hostile quantity", "Pod", "pods", "", "CREATE",
			`{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1e9999"}}}]}}`, "too large"},
	} {
		body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",
			"operation":%q,"subResource":%q,"kind":{"version":"v1","kind":%q},"resource":{"version":"v1","resource":%q},
			"object":%s}}`, c.operation, c.subresource, c.kind, c.resource, c.object)
		code, text, err := post(p.Context(), client, mutate, body)
		must(t, err)
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(text), &review); err != nil || code != 200 || review.Response == nil {
			t.Errorf("%s: %d %.300q: %v", c.what, code, text, err)
			continue
		}
		if r := review.Response; r.Allowed || r.UID != "u-1" || r.Result == nil ||
			!strings.Contains(r.Result.Message, c.word) {
			t.Errorf("%s: the answer is %.300q, want a refusal that says %q", c.what, text, c.word)
		}
	}
	if after := p.Books().Generation; after != before {
		t.Errorf("the books changed %d times", after-before)
	}
	// What cannot be read is no failure of the programs.
	must(t, p.Cluster.DryRun(p.Context(), p.Pod("train", stack.App("train", stack.GPU(1, 1000)))))
	if !p.Cluster.Webhook.Running() || !p.Cluster.Extender.Running() {
		t.Error("a program has ended")
	}
}

// filterArgs is a Filter of a pod that asks for so much memory.
func filterArgs(p *scenarios.Play, memory, nodes string) string {
	return fmt.Sprintf(`{"NodeNames":%s,%s}`, nodes, podArg(p, memory))
}

// preemptArgs is a Preempt for a pod that fits when kube-scheduler has evicted others.
func preemptArgs(p *scenarios.Play, nodes string) string {
	return fmt.Sprintf(`{"NodeNameToMetaVictims":%s,%s}`, nodes, podArg(p, `"1000"`))
}

func podArg(p *scenarios.Play, memory string) string {
	return fmt.Sprintf(`"Pod":{"metadata":{"name":"a","namespace":%q,"uid":"u-1"},
		"spec":{"containers":[{"name":"train","resources":{"limits":{"nvidia.com/gpumem":%s}}}]}}`, p.Namespace, memory)
}
