package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/await"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get returns an answer's status and body; 0 when there is none.
func get(client *http.Client, url string) (int, string) {
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(body))
}

func TestServeFromStartToDrain(t *testing.T) {
	f := newFiles(t)
	c := NewCertificate(f.cert, f.key, zap.NewNop())
	var synced atomic.Bool
	inHandler, finish := make(chan struct{}), make(chan struct{})
	o := Options{
		Admission: listen(t),
		Health:    listen(t),
		TLS:       c.TLS(),
		Metrics:   prometheus.NewRegistry(),
		Log:       zap.NewNop(),
		Drain:     300 * time.Millisecond,
		Ready: func() error {
			if !synced.Load() {
				return errors.New("quotas are not known yet")
			}
			return c.Valid()
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(inHandler)
				<-finish
			}
			io.WriteString(w, "answered")
		}),
	}
	p := newPair(t, 1, time.Now().Add(time.Hour))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "localhost"},
	}}
	admission, health := "https://"+o.Admission.Addr().String(), "http://"+o.Health.Addr().String()
	want := func(url string, code int, text string) {
		t.Helper()
		if gotCode, got := get(client, url); gotCode != code || !strings.Contains(got, text) {
			t.Errorf("%s: %d %q, want %d with %q", url, gotCode, got, code, text)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()

	want(health+"/healthz", 200, "ok")
	want(health+"/readyz", 503, "quotas are not known yet")
	synced.Store(true)
	want(health+"/readyz", 503, "no such file")
	f.write(t, p)
	want(health+"/readyz", 200, "ok")
	want(health+"/metrics", 200, "")
	want(admission+"/", 200, "answered")
	synced.Store(false)
	want(health+"/readyz", 503, "not known yet")
	synced.Store(true)

	slow := make(chan string, 1)
	go func() {
		_, body := get(client, admission+"/slow")
		slow <- body
	}()
	<-inHandler
	stop()
	await.Until(t, "/readyz to say no", func() bool {
		code, body := get(client, health+"/readyz")
		return code == 503 && strings.Contains(body, "shutting down")
	})
	want(admission+"/", 200, "answered") // requests still come while the Service catches up
	await.Until(t, "the port to close", func() bool {
		conn, err := net.Dial("tcp", o.Admission.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("ended with a request under way: %v", err)
	default:
	}
	close(finish)
	if got := <-slow; got != "answered" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeEndsWhenAPortFails(t *testing.T) {
	o := Options{Admission: listen(t), Health: listen(t), TLS: NewCertificate("", "", zap.NewNop()).TLS(), Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
		Ready: func() error { return nil }, Handler: http.NotFoundHandler()}
	o.Health.Close()
	if err := Serve(t.Context(), o); err == nil || !strings.Contains(err.Error(), "health") {
		t.Errorf("Serve: %v, want the closed port", err)
	}
}

func TestLoggerTakesKlogToo(t *testing.T) {
	var out bytes.Buffer
	log, err := Logger("info", &out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(klog.ClearLogger)
	log.Debug("quiet")
	log.Info("own")
	klog.Info("theirs")
	for text, want := range map[string]bool{`"msg":"own"`: true, `"msg":"theirs"`: true, "quiet": false} {
		if got := strings.Contains(out.String(), text); got != want {
			t.Errorf("log contains %q: %v, want %v:\n%s", text, got, want, out.String())
		}
	}
	if _, err := Logger("loud", &out); err == nil || !strings.Contains(err.Error(), "debug, info, warn or error") {
		t.Errorf("level loud: %v", err)
	}
}
