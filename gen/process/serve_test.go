package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/await"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listeners, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listeners[0]
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
	main := Server{Name: "main", Listener: listen(t), TLS: c.TLS(), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(inHandler)
				<-finish
			}
			io.WriteString(w, "answered")
		},
	)}
	ready := func(context.Context) error {
		if !synced.Load() {
			return errors.New("quotas are not known yet")
		}
		return c.Valid()
	}
	p := newPair(t, 1, time.Now().Add(time.Hour))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "localhost"},
	}}
	healthPort := listen(t)
	service, health := "https://"+main.Addr().String(), "http://"+healthPort.Addr().String()
	want := func(url string, code int, text string) {
		t.Helper()
		if gotCode, got := get(client, url); gotCode != code || !strings.Contains(got, text) {
			t.Errorf("%s: %d %q, want %d with %q", url, gotCode, got, code, text)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	end := Shutdown{
		Drain: 300 * time.Millisecond, Grace: time.Minute, Stopping: func(context.Context) { close(stopping) },
	}
	go func() {
		ended <- Serve(ctx, zap.NewNop(), end, main,
			Server{Name: "health", Listener: healthPort, Handler: Health(ctx, ready, NewRegistry())})
	}()

	want(health+"/healthz", 200, "ok")
	want(health+"/readyz", 503, "quotas are not known yet")
	synced.Store(true)
	want(health+"/readyz", 503, "no such file")
	f.write(t, p)
	want(health+"/readyz", 200, "ok")
	want(health+"/metrics", 200, "go_goroutines")
	want(service+"/", 200, "answered")
	synced.Store(false)
	want(health+"/readyz", 503, "not known yet")
	synced.Store(true)

	slow := make(chan string, 1)
	go func() {
		_, body := get(client, service+"/slow")
		slow <- body
	}()
	<-inHandler
	stop()
	await.Until(t, "/readyz to say no", func() bool {
		code, body := get(client, health+"/readyz")
		return code == 503 && strings.Contains(body, "shutting down")
	})
	want(health+"/healthz", 200, "ok")
	want(service+"/", 200, "answered") // requests still come while the Service catches up
	await.Until(t, "the port to close", func() bool {
		conn, err := net.Dial("tcp", main.Addr().String())
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
	<-stopping
	close(finish)
	if got := <-slow; got != "answered" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeEndsWhenAPortFails(t *testing.T) {
	working, closed := listen(t), listen(t)
	closed.Close()
	err := Serve(t.Context(), zap.NewNop(), Shutdown{},
		Server{Name: "main", Listener: working, Handler: http.NotFoundHandler()},
		Server{Name: "health", Listener: closed, Handler: http.NotFoundHandler()})
	if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "health") {
		t.Errorf("Serve: %v, want the closed port", err)
	}
	if _, err := Listen(t.Context(), "127.0.0.1:0", "no such address"); err == nil {
		t.Error("Listen opens a port without a number")
	}
}

// pipes is a listener of connections that are not sockets, so that synctest's time passes for them.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error   { close(l.ended); return nil }
func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Slow clients are cut off, even those that go on sending.
func TestSlowClients(t *testing.T) {
	for name, more := range map[string]string{"sends nothing more": "", "goes on": "X: y\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipes{make(chan net.Conn), make(chan struct{})}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() {
					server := Server{Name: "slow", Listener: l, Handler: http.NotFoundHandler()}
					served <- Serve(ctx, zap.NewNop(), Shutdown{Grace: time.Second}, server)
				}()
				client, server := net.Pipe()
				l.conns <- server
				began, sent := time.Now(), make(chan struct{})
				go func() {
					defer close(sent)
					_, err := io.WriteString(client, "GET /metrics HTTP/1.1\r\nHost: x\r\n")
					for err == nil && more != "" {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, more)
					}
				}()
				_, _ = io.Copy(io.Discard, client)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it was cut off after %v", took)
				}
				client.Close()
				<-sent
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestEndlessHeaders(t *testing.T) {
	l := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		health := Health(ctx, func(context.Context) error { return nil }, NewRegistry())
		server := Server{Name: "health", Listener: l, Handler: health}
		served <- Serve(ctx, zap.NewNop(), Shutdown{Grace: time.Minute}, server)
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X", strings.Repeat("y", 1<<20))
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 1 MiB: %s", answer.Status)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Profiles are served only where they were added.
func TestProfiles(t *testing.T) {
	off := Health(t.Context(), func(context.Context) error { return nil }, NewRegistry())
	on := Health(t.Context(), func(context.Context) error { return nil }, NewRegistry())
	Profiles(on)
	for _, c := range []struct {
		mux  *http.ServeMux
		path string
		code int
	}{
		{on, "/debug/pprof/", 200}, {on, "/debug/pprof/heap", 200},
		{on, "/debug/pprof/nothing", 404}, {on, "/healthz", 200},
		{off, "/debug/pprof/", 404}, {off, "/debug/pprof/heap", 404},
	} {
		w := httptest.NewRecorder()
		c.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.code {
			t.Errorf("GET %s: %d, want %d", c.path, w.Code, c.code)
		}
	}
}

func TestLoggerTakesKlogToo(t *testing.T) {
	var out bytes.Buffer
	log, err := (&Options{LogLevel: "info"}).Logger(&out)
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
	_, err = (&Options{LogLevel: "loud"}).Logger(&out)
	if err == nil || !strings.Contains(err.Error(), "debug, info, warn or error") {
		t.Errorf("level loud: %v", err)
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"":                             "--kubeconfig", // not in a pod
		"--kubeconfig=/does/not/exist": "/does/not/exist",
		"--bogus":                      "bogus",
		"serve":                        `"serve"`,
	} {
		var o Options
		err := Parse(o.Flags("x", io.Discard), strings.Fields(args))
		if err == nil {
			_, err = o.Client("x", 0, 0)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
	var out bytes.Buffer
	o := Options{}
	if err := Parse(o.Flags("x", io.Discard), []string{"--version"}); err != nil || !o.Version {
		t.Errorf("--version: %+v, %v", o, err)
	}
	if err := PrintVersion("x", &out); err != nil || out.String() != "x dev (commit unknown)\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
