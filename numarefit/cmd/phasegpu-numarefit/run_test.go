package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
	"github.com/phasegpu/phasegpu/numarefit/internal/fakeapi"
)

// apiServer is as much of an API server as one request needs.
type apiServer struct {
	mu        sync.Mutex
	away      bool
	pod       *corev1.Pod
	events    chan string
	configMap string // as written, in protobuf
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	var answer any
	switch path := r.URL.Path; {
	case s.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == "/version":
		answer = struct{}{}
	case path == "/apis/authentication.k8s.io/v1/tokenreviews":
		spec := authenticationv1.TokenReviewSpec{Token: "good", Audiences: []string{"phasegpu-numarefit"}}
		answer, _ = fakeapi.New(nil, nil).Create(r.Context(), &authenticationv1.TokenReview{Spec: spec},
			metav1.CreateOptions{})
	case path == "/api/v1/namespaces/phasegpu-node/pods/plugin-x":
		answer = fakeapi.New(nil, nil).Plugin
	case path == "/api/v1/nodes/n1":
		answer = rt.Node(rt.Card("G", 10, 10, ""), rt.Card("H", 10, 10, ""))
	case path == "/api/v1/pods":
		answer = corev1.PodList{Items: []corev1.Pod{*s.pod}}
	case path == "/api/v1/namespaces/callers/configmaps/ca":
		if r.Method == http.MethodPut {
			s.configMap = string(body)
		}
		answer = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "callers", Name: "ca"}}
	case path == "/api/v1/namespaces/team/pods/p":
		if r.Method == http.MethodPatch {
			_ = json.Unmarshal(body, s.pod)
		}
		answer = s.pod
	case strings.HasPrefix(path, "/apis/events.k8s.io/v1/namespaces/team/events"):
		s.events <- string(body)
		_, _ = w.Write(body)
		return
	default:
		w.WriteHeader(http.StatusForbidden)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// log is read while it is written.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// addresses returns those that are served, "" until there are any.
func (l *log) addresses() (requests, health string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		var entry struct{ Msg, Refit, Health string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving" {
			return entry.Refit, entry.Health
		}
	}
	return "", ""
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.Status + " " + string(body)
}

// From start to end against an API server: ready, the CA published, a container moved, an event on its pod.
func TestRun(t *testing.T) {
	t.Cleanup(klog.ClearLogger)
	pod := rt.Annotated(rt.Pod("p", rt.Container{Class: 'a', Entry: "G,NVIDIA,5,0:"}), rt.Alignment, "strict")
	api := &apiServer{pod: pod, events: make(chan string, 10)}
	listener := httptest.NewServer(api)
	defer listener.Close()
	dir := t.TempDir()
	cert, client := fakeapi.Certificate(t, dir)
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":"` + listener.URL + `"}}],
		"contexts":[{"name":"c","context":{"cluster":"c"}}]}`
	must(t, os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(kubeconfig), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var written log
	ended := make(chan error, 1)
	args := []string{
		"--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--drain=0", "--ca-configmap=callers/ca",
		"--tls-cert-file=" + dir + "/tls.crt", "--tls-key-file=" + dir + "/tls.key",
		"--kubeconfig=" + dir + "/kubeconfig",
	}
	go func() { ended <- run(ctx, args, io.Discard, &written) }()
	var requests, health string
	await.Until(t, "the ports", func() bool { requests, health = written.addresses(); return requests != "" })
	if got := get(t, "http://"+health+"/readyz"); !strings.HasPrefix(got, "200") {
		t.Errorf("/readyz: %s", got)
	}
	await.Until(t, "the CA in the ConfigMap", func() (published bool) {
		api.set(func() { published = strings.Contains(api.configMap, string(cert)) })
		return published
	})
	api.set(func() { api.away = true })
	if got := get(t, "http://"+health+"/readyz"); !strings.HasPrefix(got, "503") ||
		!strings.Contains(got, "API server") {
		t.Errorf("/readyz without the API server: %s", got)
	}
	api.set(func() { api.away = false })

	ask := func(allowed string) string {
		t.Helper()
		text, _ := json.Marshal(rt.Request(pod, 0, allowed))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+requests+refit.Path,
			bytes.NewReader(text))
		must(t, err)
		r.Header.Set("Authorization", "Bearer good")
		response, err := client.Do(r)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return strings.TrimSpace(string(body))
	}
	if got, want := ask("H"), `{"devices":["H"],"moved":true}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	if got := ask("X"); !strings.Contains(got, `"reason":"UnknownDevice"`) {
		t.Errorf("answer %s", got)
	}
	api.set(func() {
		if got := pod.Annotations[rt.Record]; got != "H,NVIDIA,5,0:;" {
			t.Errorf("record %q", got)
		}
	})
	var events string // in any order, in protobuf
	for range 2 {
		select {
		case e := <-api.events:
			events += e
		case <-time.After(30 * time.Second):
			t.Fatal("waited 30 s for an event")
		}
	}
	for _, want := range []string{"Refitted", "RefitRefused", "phasegpu-numarefit"} {
		if !strings.Contains(events, want) {
			t.Errorf("events %s lack %s", events, want)
		}
	}
	for _, want := range []string{
		`phasegpu_numarefit_requests_total{reason="",result="moved"} 1`,
		`phasegpu_numarefit_request_duration_seconds_count{result="refused"} 1`,
		"phasegpu_numarefit_certificate_expiry_timestamp_seconds 3", "go_goroutines",
	} {
		if got := get(t, "http://"+health+"/metrics"); !strings.Contains(got, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRunSaysWhyNot(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Cleanup(klog.ClearLogger)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &out, io.Discard); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(out.String(), "phasegpu-numarefit dev") {
		t.Errorf("version %s", out.String())
	}
	for args, want := range map[string]string{
		"--log-level=loud": "--log-level", "--kubeconfig=/nowhere": "/nowhere", "--audience=x": "--kubeconfig",
		"--help": flag.ErrHelp.Error(),
	} {
		err := run(t.Context(), []string{args}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
