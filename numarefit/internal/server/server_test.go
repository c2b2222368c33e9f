package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// A question that is right is answered, counted, told on the pod; reads come in the order of need.
func TestMove(t *testing.T) {
	s := serve(t, nil)
	status, a := s.post(t, "good", body(t, question()))
	if diff := cmp.Diff(answer{Devices: []string{"GPU-b"}, Moved: true}, a); diff != "" || status != 200 {
		t.Errorf("status %d, answer (-want +got): %s", status, diff)
	}
	status, a = s.post(t, "good", body(t, question()))
	if diff := cmp.Diff(answer{Devices: []string{"GPU-b"}}, a); diff != "" || status != 200 {
		t.Errorf("asked again: status %d, answer (-want +got): %s", status, diff)
	}
	reads := []string{"review", "pod phasegpu-system/plugin-x", "pod team/p", "node node", "pods of node"}
	if diff := cmp.Diff(append(append(append([]string{}, reads...), "patch p"), reads...), s.calls); diff != "" {
		t.Errorf("calls (-want +got): %s", diff)
	}
	q := question()
	q.Allowed = []string{"GPU-s"}
	status, a = s.post(t, "good", body(t, q))
	if a.Reason != string(refit.CapacityTooSmall) || status != 422 || !strings.Contains(a.Message, "GPU-s has 10 slots, 500 MiB") {
		t.Errorf("too small: %d, %+v", status, a)
	}
	if diff := cmp.Diff([]string{"Normal Refitted Refit p", "Warning RefitRefused Refit p"}, s.notes); diff != "" {
		t.Errorf("events (-want +got): %s", diff)
	}
	for _, want := range []struct {
		r      result
		reason refit.Reason
	}{{moved, ""}, {kept, ""}, {refused, refit.CapacityTooSmall}} {
		if got := s.counted(t, want.r, want.reason); got != 1 {
			t.Errorf("%s %s is counted %d times", want.r, want.reason, got)
		}
	}
}

// Case 46 and the 8: refused, counted, and nothing read that the check does not need.
func TestWhoMayAsk(t *testing.T) {
	elsewhere := question()
	elsewhere.Node = "other"
	own := []string{"review"}
	plugin := append(own, "pod phasegpu-system/plugin-x")
	for _, test := range []struct {
		name, token string
		q           *refit.Request
		pod         func(*cluster)
		status      int
		refused     refit.Reason
		calls       []string
	}{
		{name: "no token", status: 401, refused: refit.Unauthenticated},
		{name: "a wrong or expired token", token: "bad", status: 401, refused: refit.Unauthenticated, calls: own},
		{name: "no audience", token: "no-audience", status: 401, refused: refit.Unauthenticated, calls: own},
		{name: "another service account", token: "other-account", status: 403, refused: refit.NotDevicePlugin, calls: own},
		{name: "bound to no node", token: "not-bound", status: 403, refused: refit.NotBound, calls: own},
		{name: "bound to another node", token: "other-node", status: 403, refused: refit.OtherNode, calls: own},
		{name: "about another node", token: "good", q: elsewhere, status: 403, refused: refit.OtherNode, calls: own},
		{name: "its pod is gone", token: "pod-gone", status: 403, refused: refit.CallerGone, calls: append(own, "pod phasegpu-system/plugin-y")},
		{
			name: "about a pod of another node", token: "good", pod: func(c *cluster) { c.pod.Spec.NodeName = "other" },
			status: 403, refused: refit.BoundElsewhere, calls: append(plugin, "pod team/p"),
		},
		{
			name: "about a pod that is gone", token: "good", pod: func(c *cluster) { c.pod = nil },
			status: 404, refused: refit.PodGone, calls: append(plugin, "pod team/p"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil)
			if test.pod != nil {
				test.pod(s.cluster)
			}
			q := question()
			if test.q != nil {
				q = test.q
			}
			status, a := s.post(t, test.token, body(t, q))
			if status != test.status || a.Reason != string(test.refused) || a.Message == "" {
				t.Errorf("status %d, %+v, want %d, %s", status, a, test.status, test.refused)
			}
			if diff := cmp.Diff(test.calls, s.calls); diff != "" {
				t.Errorf("calls (-want +got): %s", diff)
			}
			if got := s.counted(t, refused, test.refused); got != 1 || len(s.notes) > 0 {
				t.Errorf("counted %d times, events %v", got, s.notes)
			}
		})
	}
}

// The body is not looked at before the caller is known, and then held to its bounds.
func TestBody(t *testing.T) {
	good := string(body(t, question()))
	large := strings.Replace(good, `"GPU-b"`, strings.TrimSuffix(strings.Repeat(`"GPU-b",`, refit.MaxBody/8), ","), 1)
	for _, test := range []struct {
		name, body string
		status     int
		refused    refit.Reason
	}{
		{"not JSON", "hello", 400, refit.BadRequest},
		{"nothing", "", 400, refit.BadRequest},
		{"null", "null", 400, refit.BadRequest},
		{"an unknown field", strings.Replace(good, `{"pod"`, `{"force":true,"pod"`, 1), 400, refit.BadRequest},
		{"an unknown field within", strings.Replace(good, `"uid"`, `"force":true,"uid"`, 1), 400, refit.BadRequest},
		{"a field twice", strings.Replace(good, `{"pod"`, `{"node":"node","pod"`, 1), 400, refit.BadRequest},
		{"a field spelled otherwise", strings.Replace(good, `"node"`, `"Node"`, 1), 400, refit.BadRequest},
		{"two questions", good + good, 400, refit.BadRequest},
		{"nothing allowed", strings.Replace(good, `"GPU-b"`, "", 1), 400, refit.BadRequest},
		{"too many allowed", strings.Replace(good, `"GPU-b"`, strings.TrimSuffix(strings.Repeat(`"a",`, refit.MaxAllowed+1), ","), 1), 400, refit.BadRequest},
		{"too large", large, 413, refit.TooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil)
			status, a := s.post(t, "good", []byte(test.body))
			if status != test.status || a.Reason != string(test.refused) || s.counted(t, refused, test.refused) != 1 {
				t.Errorf("status %d, %+v, want %d, %s", status, a, test.status, test.refused)
			}
			if diff := cmp.Diff([]string{"review"}, s.calls); diff != "" {
				t.Errorf("calls (-want +got): %s", diff)
			}
		})
	}
}

func TestOnlyOnePathIsServed(t *testing.T) {
	s := serve(t, nil)
	for _, test := range []struct{ method, path string }{
		{http.MethodGet, refit.Path}, {http.MethodPut, refit.Path}, {http.MethodPost, "/"}, {http.MethodPost, refit.Path + "/"}, {http.MethodGet, "/metrics"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, "https://"+s.address+test.path, bytes.NewReader(body(t, question())))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer good")
		if status, a := s.do(t, r); status != 400 || a.Reason != string(refit.BadRequest) {
			t.Errorf("%s %s: %d, %+v", test.method, test.path, status, a)
		}
	}
	if len(s.calls) > 0 {
		t.Errorf("calls: %v", s.calls)
	}
}

// Plain HTTP is refused and counted, and so is what is neither; old TLS is refused.
func TestOnlyTLSIsServed(t *testing.T) {
	s := serve(t, nil)
	if status, text := get(t, "http://"+s.address+refit.Path); status != 400 || !strings.Contains(text, "HTTPS") {
		t.Errorf("plain HTTP: %d, %s", status, text)
	}
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("\x00\x01 garbage of some length\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn) // until the server closes it
	if got := s.counted(t, refused, refit.PlainHTTP); got != 2 {
		t.Errorf("counted %d times", got)
	}
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := s.client.Transport.(*http.Transport).TLSClientConfig.Clone()
		config.MaxVersion = version
		conn, err := tls.Dial("tcp", s.address, config)
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if conn != nil {
			conn.Close()
		}
	}
	if len(s.calls) > 0 || s.counted(t, refused, refit.PlainHTTP) != 2 {
		t.Errorf("calls: %v; counted %d times", s.calls, s.counted(t, refused, refit.PlainHTTP))
	}
}

// A question has its time, whatever is slow; a defect is one question's end, not the service's.
func TestTroubleIsOneQuestions(t *testing.T) {
	s := serve(t, func(_ *Options, h *Handler) { h.Budget = 20 * time.Millisecond })
	s.stuck = func(call string) error {
		if strings.HasPrefix(call, "pods of") {
			<-time.After(time.Second) // longer than the budget, shorter than anybody's patience
			return context.DeadlineExceeded
		}
		return nil
	}
	if status, a := s.post(t, "good", body(t, question())); status != 504 || a.Reason != string(refit.TooLate) {
		t.Errorf("slow: %d, %+v", status, a)
	}
	s.stuck = func(string) error { panic("a defect") }
	if status, a := s.post(t, "good", body(t, question())); status != 500 || a.Reason != string(refit.Internal) || strings.Contains(a.Message, "defect") {
		t.Errorf("a panic: %d, %+v", status, a)
	}
	s.stuck = nil
	if s.counted(t, refused, refit.Internal) != 1 || s.counted(t, refused, refit.TooLate) != 1 {
		t.Error("not counted")
	}
}

// A certificate is replaced without a restart; half a pair changes nothing; an expired one is not ready.
func TestCertificate(t *testing.T) {
	s := serve(t, nil)
	s.client = trusting(s.certify(t, time.Now().Add(2*time.Hour)))
	if status, _ := s.post(t, "good", body(t, question())); status != 200 {
		t.Errorf("with the new certificate: %d", status)
	}
	other := &service{dir: t.TempDir()}
	half := other.certify(t, time.Now().Add(time.Hour))
	s.write(t, "tls.crt", half)
	if status, _ := s.post(t, "good", body(t, question())); status != 200 {
		t.Errorf("with half a pair: %d", status)
	}
	if status, text := get(t, s.health+"/readyz"); status != 200 {
		t.Errorf("/readyz with half a pair: %d, %s", status, text)
	}
	s.certify(t, time.Now().Add(-time.Minute))
	if status, text := get(t, s.health+"/readyz"); status != 503 || !strings.Contains(text, "renew it") {
		t.Errorf("/readyz with an expired certificate: %d, %s", status, text)
	}
	missing := &Certificate{CertFile: s.dir + "/none", KeyFile: s.dir + "/none", Log: zap.NewNop()}
	if _, err := missing.Current(); err == nil || missing.Valid() == nil || missing.expiry() != 0 {
		t.Error("a certificate out of nothing")
	}
}

// What is wrong with the files is logged once, and again when it comes back: handshakes are many.
func TestBrokenCertificateIsLoggedOnce(t *testing.T) {
	s := &service{dir: t.TempDir()}
	s.certify(t, time.Now().Add(time.Hour))
	seen, logs := observer.New(zap.WarnLevel)
	c := &Certificate{CertFile: s.dir + "/tls.crt", KeyFile: s.dir + "/tls.key", Log: zap.New(seen)}
	look := func(want int) {
		t.Helper()
		for range 3 {
			if _, err := c.Current(); err != nil {
				t.Fatal(err)
			}
		}
		if logs.Len() != want {
			t.Errorf("%d lines are logged, want %d", logs.Len(), want)
		}
	}
	look(0)
	s.write(t, "tls.crt", []byte("half a certif"))
	look(1)
	s.certify(t, time.Now().Add(time.Hour))
	look(1)
	s.write(t, "tls.crt", []byte("half a certif"))
	look(2)
}

// All that can be counted is there before anything is.
func TestMetricsAreThereFromTheStart(t *testing.T) {
	s := serve(t, nil)
	_, text := get(t, s.health+"/metrics")
	for _, want := range []string{
		`phasegpu_numarefit_requests_total{reason="",result="moved"} 0`,
		`phasegpu_numarefit_requests_total{reason="",result="kept"} 0`,
		"phasegpu_numarefit_certificate_expiry_timestamp_seconds 1.", "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, f := range refit.Reasons() {
		if want := `phasegpu_numarefit_requests_total{reason="` + string(f.Reason) + `",result="refused"} 0`; !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestNamesFollowPrometheus(t *testing.T) {
	problems, err := testutil.GatherAndLint(NewMetrics(&Certificate{Log: zap.NewNop()}).Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// From ready to drained: /readyz says no first, and a question under way is answered.
func TestShutdown(t *testing.T) {
	asked, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, func(o *Options, _ *Handler) { o.Drain = time.Second })
	s.stuck = func(call string) error {
		if call == "patch p" {
			close(asked)
			<-finish
		}
		return nil
	}
	answered := make(chan int, 1)
	go func() {
		status, _ := s.post(t, "good", body(t, question()))
		answered <- status
	}()
	<-asked
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	for status := 0; status != 503; {
		status, _ = get(t, s.health+"/readyz")
	}
	if status, _ := get(t, s.health+"/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	close(finish)
	if status := <-answered; status != 200 {
		t.Errorf("a question under way: %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServeSaysWhyItCannot(t *testing.T) {
	closed := listen(t)
	closed.Close()
	c := &Certificate{Log: zap.NewNop()}
	err := Serve(t.Context(), Options{
		Refit: closed, Health: listen(t), Cert: c, Metrics: NewMetrics(c), Log: zap.NewNop(), Handler: http.NotFoundHandler(),
		Ready: func(context.Context) error { return nil },
	})
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}
