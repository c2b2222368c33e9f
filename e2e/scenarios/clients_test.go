package scenarios_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// trusting returns what a client of the cluster's webhook trusts.
func trusting(p *scenarios.Play) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Cluster.CA())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// clients that keep the servers waiting, or would have them speak old versions of TLS, get nowhere; and nobody else
// notices.
func clients(t *testing.T, p *scenarios.Play) {
	config := trusting(p)
	pages := strings.TrimSuffix(p.Cluster.LedgerURL(), "/debug/ledger")
	must(t, stack.Together(
		func() error { return stack.OldTLS(p.Context(), p.Cluster.WebhookURL, config) },
		func() error {
			return stack.SlowClients(p.Context(), p.Cluster.WebhookURL, http.MethodPost, "/mutate", config)
		},
		func() error {
			return stack.SlowClients(p.Context(), p.Cluster.ExtenderURL, http.MethodPost, "/filter", nil)
		},
		func() error {
			return stack.SlowClients(p.Context(), p.Cluster.ExtenderURL, http.MethodPost, "/bind", nil)
		},
		func() error { return stack.SlowClients(p.Context(), pages, http.MethodGet, "/debug/ledger", nil) },
		func() error {
			return p.Cluster.DryRun(p.Context(), p.Pod("train", stack.App("train", stack.GPU(1, 1000))))
		},
	))
}

// direct: whoever calls the extender in kube-scheduler's place, which takes its pod's network, cannot book a card
// twice, move a pod, or have anything bound that the API server does not have as it is told.
func direct(t *testing.T, p *scenarios.Play) {
	bind := func(args extenderv1.ExtenderBindingArgs) string {
		t.Helper()
		body, err := json.Marshal(args)
		must(t, err)
		r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.Cluster.ExtenderURL+"/bind", bytes.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		defer answer.Body.Close()
		var result extenderv1.ExtenderBindingResult
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, json.Unmarshal(text, &result))
		return result.Error
	}
	args := func(pod *corev1.Pod, node string) extenderv1.ExtenderBindingArgs {
		return extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	}
	first := p.Submit(at("good", p.Pod("first", stack.App("train", stack.GPU(1, 20000)))))
	first = p.Scheduled(first)
	p.Running(first, "train")
	second := p.Submit(at("good", p.Pod("second", stack.App("train", stack.GPU(1, 20000)))))
	p.Pending(second, "memory")
	replaced := args(second, "good")
	replaced.PodUID = "another"
	for what, c := range map[string]struct {
		args  extenderv1.ExtenderBindingArgs
		words string
	}{
		"a card that is full":    {args(second, "good"), "memory"},
		"a node without devices": {args(second, "elsewhere"), "elsewhere"},
		"a pod that runs":        {args(first, "elsewhere"), "first"},
		"another pod's name":     {replaced, "second"},
	} {
		if refusal := bind(c.args); !strings.Contains(refusal, c.words) {
			t.Errorf("%s: %q, want a refusal that says %q", what, refusal, c.words)
		}
	}
	body := fmt.Sprintf(`{"NodeNames":["good"],"Pod":{"metadata":{"name":"ghost","namespace":%q,"uid":"ghost"},
		"spec":{"containers":[{"name":"train","resources":{"limits":{"nvidia.com/gpumem":1000}}}]}}}`, p.Namespace)
	for range 20 { // Filter books nothing
		r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.Cluster.ExtenderURL+"/filter", strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, answer.Body.Close())
	}
	p.Holds(first, 20000)
	p.StillPending(second)
	must(t, p.Cluster.AwaitAudit(p.Context()))
	p.Delete(second)
	p.Delete(first)
}
