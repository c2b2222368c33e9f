package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/audit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// books is what an extender shows that has seen clusterState.
func books(t *testing.T) string {
	var state input.Set
	state.Read(strings.NewReader(clusterState), "", "")
	book := ledger.New()
	for _, node := range state.Nodes {
		book.SetNode(kube.Node(node))
	}
	for _, quota := range state.Quotas {
		truth, err := kube.Quota(quota)
		if err != nil {
			t.Fatal(err)
		}
		book.SetQuota(truth)
	}
	for _, pod := range state.Pods {
		book.Observe(kube.LedgerPod(pod.Pod, phase.PerInit))
	}
	text, err := json.Marshal(ui.Read(1, phase.PerInit, book, nil))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// extenders are an API server's answers about them.
type extenders struct {
	lease string            // the holder, "" for no Lease
	ready map[string]bool   // by pod
	books map[string]string // by pod; the proxy fails for those without
}

// serve serves clusterState and extenders in namespace gpus.
func (e extenders) serve(t *testing.T, more ...string) *httptest.Server {
	state := api(t, more...).Config.Handler
	mux := http.NewServeMux()
	mux.Handle("/", state)
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/gpus/leases/phasegpu-scheduler",
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if e.lease == "" {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no such lease"}`)
				return
			}
			fmt.Fprintf(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":%q}}`, e.lease)
		})
	mux.HandleFunc("GET /api/v1/namespaces/gpus/pods", func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "app.kubernetes.io/name=phasegpu-scheduler" {
			t.Errorf("pods with labels %q are listed", got)
		}
		var items []string
		for name, ready := range e.ready {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q},"status":{"containerStatuses":[{"name":"kube-scheduler","ready":true},{"name":"extender","ready":%v}]}}`, name, ready))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
	})
	mux.HandleFunc("GET /api/v1/namespaces/gpus/pods/{pod}/proxy/debug/ledger",
		func(w http.ResponseWriter, r *http.Request) {
			name, _ := strings.CutSuffix(r.PathValue("pod"), ":8080")
			if e.books[name] == "" {
				http.Error(w, "connection refused", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, e.books[name])
		})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestAuditFindsTheExtenders(t *testing.T) {
	right := books(t)
	for _, c := range []struct {
		name   string
		e      extenders
		code   int
		books  []string // name, and whether it leads
		stderr string
	}{
		{"leader and follower", extenders{"b_1234", map[string]bool{"a": true, "b": true},
			map[string]string{"a": right, "b": right}}, 0,
			[]string{"Pod gpus/b true", "Pod gpus/a false"}, ""},
		{"one that is not ready", extenders{"b_1234", map[string]bool{"a": false, "b": true},
			map[string]string{"a": right, "b": right}}, 0,
			[]string{"Pod gpus/b true"}, "warning: Pod gpus/a: its extender is not ready, so its books are not " +
				"compared\n"},
		{"the leader is gone", extenders{"c_1234", map[string]bool{"b": true}, map[string]string{"b": right}}, 0,
			[]string{"Pod gpus/b false"}, "warning: Lease gpus/phasegpu-scheduler: held by \"c\", which is no " +
				"extender that is ready: nothing is bound until another takes over\n"},
		{"one cannot be reached", extenders{"b_1234", map[string]bool{"a": true, "b": true},
			map[string]string{"b": right}}, 2,
			[]string{"Pod gpus/b true"}, "error: Pod gpus/a: its books cannot be read: "},
		{"one shows something else", extenders{"b_1234", map[string]bool{"b": true}, map[string]string{"b": "<html>"}},
			2,
			nil, "error: Pod gpus/b: this is no extender's /debug/ledger: "},
		{"none is ready", extenders{"b_1234", map[string]bool{"b": false}, nil}, 2,
			nil, "error: none of 1 pods with label app.kubernetes.io/name=phasegpu-scheduler in namespace gpus has " +
				"an extender that is ready\n"},
		{"no Lease", extenders{}, 2,
			nil, "error: the leading extender cannot be found by its Lease (is phasegpu in another namespace? give " +
				"--namespace; or give --ledger): "},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"audit", "-n", "gpus"}, access(t, c.e.serve(t))...)
			got, _, stderr, code := parsed[audit.Report](t, args...)
			if code != c.code || !strings.Contains(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", code, c.code, stderr, c.stderr)
			}
			var names []string
			for _, b := range got.Books {
				names = append(names, fmt.Sprint(b.Source, " ", b.Leads))
				if want := (audit.Counts{Nodes: 1, Devices: 1, Pods: 1, Namespaces: 1, Quotas: 1}); b.Compared != want {
					t.Errorf("compared %+v, want %+v", b.Compared, want)
				}
			}
			if diff := cmp.Diff(c.books, names); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Books from a URL or a file are compared with the cluster.
func TestAuditOfBooksFromElsewhere(t *testing.T) {
	access := access(t, api(t))
	right := books(t)
	shown := right
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/ledger" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, shown)
	}))
	t.Cleanup(server.Close)
	edited := filepath.Join(t.TempDir(), "ledger.json")
	if err := os.WriteFile(edited, []byte(strings.ReplaceAll(right, `"memoryMiB":10000`, `"memoryMiB":12000`)),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ledger         string
		code           int
		stdout, stderr string
	}{
		{server.URL + "/debug/ledger", 0, "no drift", ""},
		{server.URL + "/metrics", 2, "", "404 Not Found: give the URL of an extender's /debug/ledger"},
		{"http://127.0.0.1:1/debug/ledger", 2, "", "connection refused"},
		{edited, 1, "pod ml/running  books 12000 MiB, 1 slot  recomputed 10000 MiB, 1 slot  its record says otherwise",
			""},
		{"no-such-file", 2, "", "no-such-file"},
	} {
		check(t, append([]string{"audit", "--ledger", c.ledger}, access...), c.code, c.stdout, c.stderr)
	}
}
