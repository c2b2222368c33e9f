package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
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

	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/await"
)

// apiServer is as much of an API server as one question needs.
type apiServer struct {
	mu     sync.Mutex
	away   bool
	record string
	events chan string
	told   string // what became of the ConfigMap, in protobuf
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"team","name":"p","uid":"u","resourceVersion":"4",
		"annotations":{"hami.io/numa-alignment":"strict","hami.io/vgpu-devices-allocated":"` + s.record + `"}},
		"spec":{"nodeName":"n","containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":"5"}}}]},"status":{"phase":"Pending"}}`
	body, _ := io.ReadAll(r.Body)
	switch {
	case s.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{}`)
	case r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		_, _ = io.WriteString(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"audiences":["phasegpu-numarefit"],
			"user":{"username":"system:serviceaccount:phasegpu-node:phasegpu-device-plugin","extra":{"authentication.kubernetes.io/pod-name":["x"],
			"authentication.kubernetes.io/pod-uid":["ux"],"authentication.kubernetes.io/node-name":["n"]}}}}`)
	case r.URL.Path == "/api/v1/namespaces/phasegpu-node/pods/x":
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","uid":"ux"},"spec":{"nodeName":"n"}}`)
	case r.URL.Path == "/api/v1/nodes/n":
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","annotations":{"hami.io/node-nvidia-register":
			"[{\"id\":\"G\",\"count\":10,\"devmem\":10,\"devcore\":100,\"health\":true},{\"id\":\"H\",\"count\":10,\"devmem\":10,\"devcore\":100,\"health\":true}]"}},
			"status":{"allocatable":{"nvidia.com/gpu":"20"}}}`)
	case r.URL.Path == "/api/v1/pods":
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`+pod+`]}`)
	case r.URL.Path == "/api/v1/namespaces/callers/configmaps/ca":
		if r.Method == http.MethodPut {
			s.told = string(body)
		}
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"callers","name":"ca"}}`)
	case r.Method == http.MethodPatch:
		var patch struct {
			Metadata struct{ Annotations map[string]string }
		}
		_ = json.Unmarshal(body, &patch)
		s.record = patch.Metadata.Annotations["hami.io/vgpu-devices-allocated"]
		_, _ = io.WriteString(w, pod)
	case r.URL.Path == "/api/v1/namespaces/team/pods/p":
		_, _ = io.WriteString(w, pod)
	case strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/v1/namespaces/team/events"):
		s.events <- string(body)
		_, _ = w.Write(body)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
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
func (l *log) addresses() (questions, health string) {
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

func waitFor(t *testing.T, events <-chan string) string {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("waited 30 s for an event")
		return ""
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Status + " " + string(body)
}

// From start to end against an API server: ready, the CA told, a container moved, an event on its pod, gone when asked.
func TestRun(t *testing.T) {
	t.Cleanup(klog.ClearLogger)
	api := &apiServer{record: "G,NVIDIA,5,0:;", events: make(chan string, 10)}
	listener := httptest.NewServer(api)
	defer listener.Close()
	pair := httptest.NewTLSServer(nil) // for its certificate, which is for example.com
	defer pair.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var written log
	ended := make(chan error, 1)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw})
	write("ca.crt", cert)
	args := []string{
		"--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--drain=0", "--ca-configmap=callers/ca",
		"--tls-cert-file=" + write("tls.crt", cert),
		"--tls-key-file=" + write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"--kubeconfig=" + write("kubeconfig", []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
			"clusters":[{"name":"c","cluster":{"server":"`+listener.URL+`"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`)),
	}
	go func() { ended <- run(ctx, args, io.Discard, &written) }()
	var questions, health string
	await.Until(t, "the ports", func() bool { questions, health = written.addresses(); return questions != "" })
	if got := get(t, "http://"+health+"/readyz"); !strings.HasPrefix(got, "200") {
		t.Errorf("/readyz: %s", got)
	}
	await.Until(t, "callers are told the CA", func() (told bool) {
		api.set(func() { told = strings.Contains(api.told, string(cert)) })
		return told
	})
	api.set(func() { api.away = true })
	if got := get(t, "http://"+health+"/readyz"); !strings.HasPrefix(got, "503") || !strings.Contains(got, "API server") {
		t.Errorf("/readyz without the API server: %s", got)
	}
	api.set(func() { api.away = false })

	roots := x509.NewCertPool()
	roots.AddCert(pair.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}
	defer client.CloseIdleConnections()
	ask := func(allowed string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+questions+"/v1/refit", strings.NewReader(
			`{"pod":{"namespace":"team","name":"p","uid":"u"},"node":"n","container":{"name":"a","position":0},"family":"NVIDIA","allowed":["`+allowed+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer t")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(body))
	}
	if got, want := ask("H"), `{"devices":["H"],"moved":true}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	if got := ask("X"); !strings.Contains(got, `"reason":"UnknownDevice"`) {
		t.Errorf("answer %s", got)
	}
	api.set(func() {
		if api.record != "H,NVIDIA,5,0:;" {
			t.Errorf("record %q", api.record)
		}
	})
	events := waitFor(t, api.events) + waitFor(t, api.events) // in any order, in protobuf
	for _, want := range []string{"Refitted", "RefitRefused", "phasegpu-numarefit"} {
		if !strings.Contains(events, want) {
			t.Errorf("events %s lack %s", events, want)
		}
	}
	for _, want := range []string{`phasegpu_numarefit_requests_total{reason="",result="moved"} 1`, `phasegpu_numarefit_request_duration_seconds_count{result="refused"} 1`} {
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
	t.Cleanup(klog.ClearLogger)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), "phasegpu-numarefit dev") {
		t.Errorf("%v, %s", err, out.String())
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--log-level=loud"}, "--log-level"},
		{[]string{"--kubeconfig=/nowhere"}, "/nowhere"},
		{nil, "--kubeconfig"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		if err := run(t.Context(), test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
	if err := run(t.Context(), []string{"--help"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}
