package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/await"
)

// apiServer is as much of an API server as a feed needs: lists of one bound pod and one quota once it
// is opened, and watches on which nothing happens.
type apiServer struct {
	open chan struct{}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case q.Get("sendInitialEvents") == "true": // the feed lists instead
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") == "true":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		select {
		case <-s.open:
		case <-r.Context().Done():
		}
		switch r.URL.Path {
		case "/api/v1/pods":
			io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{
				"metadata":{"namespace":"team","name":"old","uid":"u","resourceVersion":"4","annotations":{"hami.io/vgpu-devices-allocated":"G,NVIDIA,5000,0:;"}},
				"spec":{"nodeName":"n1","containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpumem":"5000"}}}]},"status":{"phase":"Running"}}]}`)
		case "/api/v1/resourcequotas":
			io.WriteString(w, `{"kind":"ResourceQuotaList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{
				"metadata":{"namespace":"team","name":"gpu","resourceVersion":"3"},"spec":{"hard":{"limits.nvidia.com/gpumem":"8000"}}}]}`)
		default:
			w.WriteHeader(http.StatusForbidden) // the webhook's role has no more than that
		}
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// addresses returns those that the log says are served, "" until it does.
func (l *lockedBuffer) addresses() (admission, health string) {
	for line := range strings.Lines(l.String()) {
		var entry struct{ Msg, Admission, Health string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving" {
			return entry.Admission, entry.Health
		}
	}
	return "", ""
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body))
}

// From start to end against an API server: not ready until the books are complete, then held to what
// they say, and gone when asked to go.
func TestRun(t *testing.T) {
	t.Cleanup(klog.ClearLogger)
	api := &apiServer{open: make(chan struct{})}
	apiListener := httptest.NewServer(api)
	defer apiListener.Close()

	// The certificate and key of another test server, for 127.0.0.1 and example.com.
	dir := t.TempDir()
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log lockedBuffer
	ended := make(chan error, 1)
	args := []string{
		"--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--drain=0",
		"--tls-cert-file=" + write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw})),
		"--tls-key-file=" + write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"--kubeconfig=" + write("kubeconfig", []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
			"clusters":[{"name":"c","cluster":{"server":"`+apiListener.URL+`"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`)),
	}
	go func() { ended <- run(ctx, args, io.Discard, &log) }()

	var admission, health string
	await.Until(t, "the ports", func() bool { admission, health = log.addresses(); return admission != "" })
	if got := get("http://" + health + "/readyz"); !strings.HasPrefix(got, "503 not ready: the first list") {
		t.Errorf("/readyz before the lists: %s", got)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}
	ask := func(memory string) string {
		t.Helper()
		response, err := client.Post("https://"+admission+"/mutate", "application/json", strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
			"request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"operation":"CREATE","namespace":"team",
			"object":{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpumem":"`+memory+`"}}}]}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return string(body)
	}
	if got := ask("3000"); !strings.Contains(got, `"code":503`) {
		t.Errorf("before the lists: %s", got)
	}
	close(api.open)
	await.Until(t, "/readyz", func() bool { return strings.HasPrefix(get("http://"+health+"/readyz"), "200") })
	if got := ask("3000"); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("3000 beside 5000 of 8000: %s", got)
	}
	if got := ask("3001"); !strings.Contains(got, "5000 MiB are used") {
		t.Errorf("3001 beside 5000 of 8000: %s", got)
	}
	for _, want := range []string{"phasegpu_webhook_certificate_expiry_timestamp_seconds 3.6", `phasegpu_webhook_admission_requests_total{reason="quota",result="denied"} 1`, "go_goroutines"} {
		if got := get("http://" + health + "/metrics"); !strings.Contains(got, want) {
			t.Errorf("metrics lack %q:\n%s", want, got)
		}
	}
	if response, err := client.Get("https://" + admission + "/mutate"); err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v, %v", response, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
