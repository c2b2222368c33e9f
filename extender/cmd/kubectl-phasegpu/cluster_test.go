package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
)

const clusterState = `
kind: List
items:
- kind: Node
  metadata:
    name: node-1
    annotations: {hami.io/node-nvidia-register: '[{"id":"GPU-0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA L4","health":true}]'}
  status: {allocatable: {nvidia.com/gpu: 10}}
- kind: ResourceQuota
  metadata: {name: gpus, namespace: ml}
  spec: {hard: {limits.nvidia.com/gpumem: 20000}}
- kind: Pod
  metadata: {name: running, namespace: ml, uid: u1, labels: {app: a}, annotations: {hami.io/vgpu-devices-allocated: "GPU-0,NVIDIA,10000,0:;"}}
  spec: {nodeName: node-1, containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 10000}}}]}
  status: {phase: Running}
- kind: Pod
  metadata: {name: waiting, namespace: ml, uid: u2}
  spec: {containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 2000}}}]}
  status: {phase: Pending}
- kind: Pod
  metadata: {name: web, namespace: ml, uid: u3}
  spec: {nodeName: node-1, containers: [{name: a, image: x}]}
- kind: Pod
  metadata: {name: other, namespace: team, uid: u4, labels: {app: a}}
  spec: {containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}
`

// api serves clusterState, and more items in YAML, as an API server would, two pods to a page.
func api(t *testing.T, more ...string) *httptest.Server {
	var state input.Set
	state.Read(strings.NewReader(clusterState+strings.Join(more, "")), "", "")
	if len(state.Problems) > 0 {
		t.Fatal(state.Problems)
	}
	var nodes corev1.NodeList
	for _, node := range state.Nodes {
		nodes.Items = append(nodes.Items, *node)
	}
	var quotas corev1.ResourceQuotaList
	for _, quota := range state.Quotas {
		quotas.Items = append(quotas.Items, *quota)
	}
	var pods []corev1.Pod
	for _, pod := range state.Pods {
		pods = append(pods, *pod.Pod)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if user := r.Header.Get("Impersonate-User"); user != "" && user != "ada" {
			http.Error(w, "nobody may act as "+user, http.StatusForbidden)
			return
		}
		answer := func(kind string, object any) {
			text, _ := json.Marshal(object)
			text = append([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":%q,`, kind)), text[1:]...)
			w.Header().Set("Content-Type", "application/json")
			w.Write(text)
		}
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
		namespace := ""
		if parts[0] == "namespaces" && len(parts) > 1 {
			namespace, parts = parts[1], parts[2:]
		}
		switch {
		case parts[0] == "namespaces":
			var list corev1.NamespaceList
			for _, name := range []string{"ml", "team"} {
				list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			answer("NamespaceList", list)
		case parts[0] == "nodes" && len(parts) == 2:
			answer("Node", nodes.Items[0])
		case parts[0] == "nodes":
			answer("NodeList", nodes)
		case parts[0] == "resourcequotas":
			answer("ResourceQuotaList", quotas)
		case parts[0] == "pods" && len(parts) == 2:
			for _, p := range pods {
				if p.Namespace == namespace && p.Name == parts[1] {
					answer("Pod", p)
					return
				}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			answer("Status", metav1.Status{Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404,
				Message: `pods "` + parts[1] + `" not found`})
		case parts[0] == "pods":
			answer("PodList", pageOf(pods, namespace, r))
		default:
			t.Errorf("unexpected request for %s", r.URL)
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func pageOf(pods []corev1.Pod, namespace string, r *http.Request) corev1.PodList {
	var all []corev1.Pod
	for _, p := range pods {
		selected := false
		switch r.URL.Query().Get("fieldSelector") {
		case "":
			selected = true
		case "spec.nodeName!=", "spec.nodeName=node-1":
			selected = p.Spec.NodeName != ""
		case "spec.nodeName=,status.nominatedNodeName!=":
			selected = p.Spec.NodeName == "" && p.Status.NominatedNodeName != ""
		}
		label := r.URL.Query().Get("labelSelector")
		if (namespace == "" || p.Namespace == namespace) && selected &&
			(label == "" || label == "app="+p.Labels["app"]) {
			all = append(all, p)
		}
	}
	from := 0
	fmt.Sscan(r.URL.Query().Get("continue"), &from)
	list := corev1.PodList{Items: all[from:min(from+2, len(all))]}
	if from+2 < len(all) {
		list.Continue = fmt.Sprint(from + 2)
	}
	return list
}

// kubeconfig writes a kubeconfig whose context "test" reaches a server and is in namespace ml.
func kubeconfig(t testing.TB, server *httptest.Server) string {
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: none,
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {token: secret}}],
contexts: [{name: test, context: {cluster: c, user: u, namespace: ml}}, {name: none, context: {cluster: nowhere, user: u}}]}`, server.URL,
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: server.Certificate().Raw})))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// access are the flags that reach a server.
func access(t testing.TB, server *httptest.Server) []string {
	return []string{"--kubeconfig", kubeconfig(t, server), "--context", "test"}
}

func TestExplainOnACluster(t *testing.T) {
	server := api(t)
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		pods   []string
		stderr string
	}{
		{"by name, in the context's namespace", []string{"running", "web"}, 0, []string{"ml/running", "ml/web"}, ""},
		{"another namespace", []string{"other", "-n", "team"}, 0, []string{"team/other"}, ""},
		{"one that is not there loses nothing", []string{"gone", "waiting"}, 2, []string{"ml/waiting"},
			"error: Pod ml/gone: pods \"gone\" not found\n"},
		{"all namespaces, only pods with devices", []string{"-A"}, 0,
			[]string{"ml/running", "ml/waiting", "team/other"}, ""},
		{"a selector, in one namespace", []string{"-l", "app=a"}, 0, []string{"ml/running"}, ""},
		{"a selector that nothing matches", []string{"-l", "app=b"}, 0, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(append([]string{"explain"}, c.args...), access(t, server)...)
			got, _, stderr, code := parsed[explain.Report](t, args...)
			if code != c.code || stderr != c.stderr {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", code, c.code, stderr, c.stderr)
			}
			var pods []string
			for _, p := range got.Pods {
				pods = append(pods, p.Namespace+"/"+p.Name)
			}
			if diff := cmp.Diff(c.pods, pods); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestFitOnACluster(t *testing.T) {
	access := access(t, api(t))
	pod := func(memory int) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {containers: [{name: a, image: x,
			resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: %d}}}]}}`, memory)
	}
	// 14576 MiB of the card are free, and 10000 of the quota.
	for _, c := range []struct {
		memory int
		args   []string
		reason string
	}{
		{10000, nil, ""},
		{10001, nil, "quota gpus"},
		{14576, []string{"-n", "team"}, ""},
		{14577, []string{"-n", "team"}, "Insufficient GPU memory"},
	} {
		args := append(append([]string{"fit", "-f", "-", "-o", "json"}, access...), c.args...)
		stdout, stderr, code := command(t, pod(c.memory), args...)
		var got fit.Report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Pods) != 1 || stderr != "" {
			t.Fatalf("%d MiB: %v, %s, stderr %q", c.memory, err, stdout, stderr)
		}
		if fits := c.reason == ""; fits != (code == exitFine) ||
			!strings.Contains(got.Pods[0].Reasons["node-1"], c.reason) {
			t.Errorf("%d MiB: exit code %d, reason %q, want %q", c.memory, code, got.Pods[0].Reasons["node-1"],
				c.reason)
		}
	}
	_, stderr, code := command(t, pod(1), append([]string{"fit", "-f", "-"}, access[:2]...)...)
	if code != exitBadInput || !strings.Contains(stderr, "no cluster to ask") {
		t.Errorf("a context without a cluster: exit code %d, %s", code, stderr)
	}
}

func TestRefitOnACluster(t *testing.T) {
	access := access(t, api(t))
	for _, c := range []struct {
		pod, allow     string
		code           int
		stdout, stderr string
	}{
		{"running", "GPU-0", 0, "container a of Pod ml/running on node node-1 would stay: GPU-0 is allowed", ""},
		{"running", "GPU-1", 1, "container a of Pod ml/running would not move: NotOptedIn", ""},
		{"gone", "GPU-0", 2, "", `pods "gone" not found`},
		{"waiting", "GPU-0", 2, "", "pod ml/waiting has no node yet"},
	} {
		args := append([]string{"refit", "--dry-run", c.pod, "a", "--allow", c.allow}, access...)
		check(t, args, c.code, c.stdout, c.stderr)
	}
}

// The flags of kubectl reach the cluster as they do there.
func TestFlagsOfKubectl(t *testing.T) {
	server := api(t)
	access := access(t, server)
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{append(access, "--as", "ada"), exitFine, ""},
		{append(access, "--as", "eve"), exitBadInput, "nobody may act as eve"},
		{append(access, "--token", "other"), exitBadInput, "asked for the client to provide credentials"},
		{append(access, "--request-timeout", "1ns"), exitBadInput, "context deadline exceeded"},
		{append(access, "--cluster", "nowhere"), exitBadInput, "no cluster to ask"},
		{[]string{"--server", server.URL, "--insecure-skip-tls-verify", "--token", "secret", "-n", "ml"}, exitFine, ""},
	} {
		check(t, append([]string{"explain", "running"}, c.args...), c.code, "", c.stderr)
	}
}
