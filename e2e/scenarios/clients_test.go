package scenarios_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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

// clients that keep the servers waiting, or that speak old versions of TLS, are cut off; other requests are answered.
func clients(t *testing.T, p *scenarios.Play) {
	config := trusting(p)
	pages := strings.TrimSuffix(p.Cluster.LedgerURL(), "/debug/ledger")
	slow := func(base, method, path string, config *tls.Config) func() error {
		return func() error { return stack.SlowClients(p.Context(), base, method, path, config) }
	}
	must(t, stack.Together(
		func() error { return stack.OldTLS(p.Context(), p.Cluster.WebhookURL, config) },
		slow(p.Cluster.WebhookURL, http.MethodPost, "/mutate", config),
		slow(p.Cluster.ExtenderURL, http.MethodPost, "/filter", nil),
		slow(p.Cluster.ExtenderURL, http.MethodPost, "/bind", nil),
		slow(pages, http.MethodGet, "/debug/ledger", nil),
		func() error {
			return p.Cluster.DryRun(p.Context(), p.Pod("train", stack.App("train", stack.GPU(1, 1000))))
		},
	))
}

// direct: calls of the extender that do not come from kube-scheduler cannot book a card twice, move a pod, or bind a
// pod that the API server has otherwise.
func direct(t *testing.T, p *scenarios.Play) {
	first := p.Submit(at("good", p.Pod("first", stack.App("train", stack.GPU(1, 20000)))))
	first = p.Scheduled(first)
	p.Running(first, "train")
	second := p.Submit(at("good", p.Pod("second", stack.App("train", stack.GPU(1, 20000)))))
	p.Pending(second, "memory")
	replaced := second.DeepCopy()
	replaced.UID = "another"
	for what, c := range map[string]struct {
		pod         *corev1.Pod
		node, words string
	}{
		"a card that is full":    {second, "good", "memory"},
		"a node without devices": {second, "elsewhere", "elsewhere"},
		"a pod that runs":        {first, "elsewhere", "first"},
		"another pod's name":     {replaced, "good", "second"},
	} {
		var result extenderv1.ExtenderBindingResult
		must(t, bind(p.Context(), p.Cluster, c.pod, c.node, &result))
		if !strings.Contains(result.Error, c.words) {
			t.Errorf("%s: %q, want a refusal that says %q", what, result.Error, c.words)
		}
	}
	body := fmt.Sprintf(`{"NodeNames":["good"],"Pod":{"metadata":{"name":"ghost","namespace":%q,"uid":"ghost"},
		"spec":{"containers":[{"name":"train","resources":{"limits":{"nvidia.com/gpumem":1000}}}]}}}`, p.Namespace)
	for range 20 { // Filter books nothing
		_, _, err := post(p.Context(), http.DefaultClient, p.Cluster.ExtenderURL+"/filter", body)
		must(t, err)
	}
	p.Holds(first, 20000)
	p.StillPending(second)
	must(t, p.Cluster.AwaitAudit(p.Context()))
	p.Delete(second)
	p.Delete(first)
}
