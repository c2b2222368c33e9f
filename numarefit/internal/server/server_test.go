package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
	"github.com/phasegpu/phasegpu/numarefit/internal/fakeapi"
)

type status = authenticationv1.TokenReviewStatus

// tokens are called by what is right or wrong with them.
var tokens = map[string]func(*status){
	"other-account": func(s *status) { s.User.Username = "system:serviceaccount:team:default" },
	"no-audience":   func(s *status) { s.Audiences = nil },
	"other-node":    func(s *status) { s.User.Extra[fakeapi.NodeName] = []string{"other"} },
	"not-bound":     func(s *status) { s.User.Extra = nil },
	"pod-gone":      func(s *status) { s.User.Extra[fakeapi.PodName] = []string{"plugin-y"} },
}

// service is the handler on a real port. Its pod has one container on GPU-a.
type service struct {
	*fakeapi.API
	*Handler
	address string
	client  *http.Client // trusts the certificate
	events  []string     // type, reason, action, pod
	longest int          // bytes of an event's note
}

// Eventf implements events.EventRecorder.
func (s *service) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	s.events = append(s.events, strings.Join([]string{kind, reason, action, regarding.(*corev1.Pod).Name}, " "))
	s.longest = max(s.longest, len(fmt.Sprintf(note, args...)))
}

func newService(t *testing.T) *service {
	pod := rt.Annotated(rt.Pod("p", rt.Container{Class: 'a', Entry: rt.Share("GPU-a", 1000)}), rt.Alignment, "strict")
	node := rt.Node(rt.Card("GPU-a", 1500, 10, ""), rt.Card("GPU-b", 1500, 10, ""), rt.Card("GPU-s", 500, 10, ""))
	s := &service{API: fakeapi.New(pod, node)}
	s.Tokens = tokens
	s.Handler = &Handler{
		Auth: &auth.Reviewer{
			Reviews: s.API, Pods: s.API,
			Audience: refit.Audience, Namespace: "phasegpu-node", ServiceAccount: "phasegpu-device-plugin",
		},
		Decider: &decide.Decider{Store: s.API, Settle: time.Second},
		Events:  s, Metrics: NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(), Budget: time.Minute,
	}
	dir := t.TempDir()
	_, s.client = fakeapi.Certificate(t, dir)
	certificate := process.NewCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), zap.NewNop())
	listeners, err := process.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	s.address = listeners[0].Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	end := process.Shutdown{Grace: time.Minute}
	go func() { ended <- process.Serve(ctx, zap.NewNop(), end, s.Server(listeners[0], certificate)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// request is one that moves the pod to an allowed device.
func request(allowed string) *refit.Request {
	return rt.Request(rt.Pod("p", rt.Container{Class: 'a'}), 0, allowed)
}

func body(t *testing.T, q *refit.Request) []byte {
	t.Helper()
	text, err := json.Marshal(q)
	must(t, err)
	return text
}

// send sends a request with a token, "" for none, and returns the status and the response.
func (s *service) send(t *testing.T, method, path, token string, body []byte) (int, refit.Response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+path, bytes.NewReader(body))
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var a refit.Response
	if err := errors.Join(err, json.Unmarshal(text, &a)); err != nil {
		t.Fatalf("%s: %v: %s", response.Status, err, text)
	}
	return response.StatusCode, a
}

func (s *service) post(t *testing.T, token string, body []byte) (int, refit.Response) {
	t.Helper()
	return s.send(t, http.MethodPost, refit.Path, token, body)
}

// refuses posts a body and checks that it is refused and counted.
func (s *service) refuses(t *testing.T, token string, body []byte, status int, reason refit.Reason) refit.Response {
	t.Helper()
	got, a := s.post(t, token, body)
	if got != status || rt.Reason(a.Refusal) != reason || a.Refusal == nil || a.Message == "" {
		t.Errorf("status %d, %v, want %d, %s", got, a.Refusal, status, reason)
	}
	if n := s.counted(refused, reason); n != 1 {
		t.Errorf("%s is counted %d times", reason, n)
	}
	return a
}

// moves posts a request for GPU-b and checks that it is answered.
func (s *service) moves(t *testing.T, moved bool) {
	t.Helper()
	status, a := s.post(t, "good", body(t, request("GPU-b")))
	want := refit.Response{Answer: &refit.Answer{Devices: []string{"GPU-b"}, Moved: moved}}
	if diff := cmp.Diff(want, a); diff != "" || status != 200 {
		t.Errorf("status %d, response (-want +got): %s", status, diff)
	}
}

// counted returns how often a result with a reason was counted.
func (s *service) counted(r result, reason refit.Reason) int {
	return int(testutil.ToFloat64(s.Metrics.requests.WithLabelValues(string(r), string(reason))))
}

func equal(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

// A correct request is answered, counted, and followed by an event; reads come in the order of need.
func TestMove(t *testing.T) {
	s := newService(t)
	s.moves(t, true)
	s.moves(t, false)
	reads := []string{"review", "pod phasegpu-node/plugin-x", "pod team/p", "node n1", "pods of n1"}
	equal(t, "calls", append(append(append([]string{}, reads...), "patch p"), reads...), s.Calls)
	a := s.refuses(t, "good", body(t, request("GPU-s")), 422, refit.CapacityTooSmall)
	if !strings.Contains(a.Message, "GPU-s has 10 slots, 500 MiB") {
		t.Errorf("too small: %s", a.Message)
	}
	equal(t, "events", []string{"Normal Refitted Refit p", "Warning RefitRefused Refit p"}, s.events)
	if s.counted(moved, "") != 1 || s.counted(kept, "") != 1 {
		t.Errorf("moved is counted %d times, kept %d times", s.counted(moved, ""), s.counted(kept, ""))
	}
}

// Other callers are refused and counted, and nothing is read that the check does not need.
func TestWhoMayAsk(t *testing.T) {
	elsewhere := request("GPU-b")
	elsewhere.Node = "other"
	own := []string{"review"}
	plugin := append(own, "pod phasegpu-node/plugin-x")
	for _, test := range []struct {
		name, token string
		q           *refit.Request
		change      func(*service)
		status      int
		refused     refit.Reason
		calls       []string
	}{
		{name: "no token", status: 401, refused: refit.Unauthenticated},
		{name: "a wrong or expired token", token: "bad", status: 401, refused: refit.Unauthenticated, calls: own},
		{name: "no audience", token: "no-audience", status: 401, refused: refit.Unauthenticated, calls: own},
		{name: "another service account", token: "other-account", status: 403, refused: refit.NotDevicePlugin,
			calls: own},
		{name: "bound to no node", token: "not-bound", status: 403, refused: refit.NotBound, calls: own},
		{name: "bound to another node", token: "other-node", status: 403, refused: refit.OtherNode, calls: own},
		{name: "about another node", token: "good", q: elsewhere, status: 403, refused: refit.OtherNode, calls: own},
		{name: "its pod is gone", token: "pod-gone", status: 403, refused: refit.CallerGone,
			calls: append(own, "pod phasegpu-node/plugin-y")},
		{name: "about a pod of another node", token: "good", status: 403, refused: refit.BoundElsewhere,
			change: func(s *service) { s.Target.Spec.NodeName = "other" }, calls: append(plugin, "pod team/p")},
		{name: "about a pod that is gone", token: "good", status: 404, refused: refit.PodGone,
			change: func(s *service) { s.Target = nil }, calls: append(plugin, "pod team/p")},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t)
			if test.change != nil {
				test.change(s)
			}
			q := request("GPU-b")
			if test.q != nil {
				q = test.q
			}
			s.refuses(t, test.token, body(t, q), test.status, test.refused)
			equal(t, "calls", test.calls, s.Calls)
			equal(t, "events", nil, s.events)
		})
	}
}

// The body is not read before the caller is known. Then it is held to its bounds.
func TestBody(t *testing.T) {
	good := string(body(t, request("GPU-b")))
	change := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	list := func(uuid string, n int) string { return strings.TrimSuffix(strings.Repeat(uuid+",", n), ",") }
	for _, test := range []struct {
		name, body string
		status     int
		refused    refit.Reason
	}{
		{"not JSON", "hello", 400, refit.BadRequest},
		{"nothing", "", 400, refit.BadRequest},
		{"null", "null", 400, refit.BadRequest},
		{"an unknown field", change(`{"pod"`, `{"force":true,"pod"`), 400, refit.BadRequest},
		{"an unknown field within", change(`"uid"`, `"force":true,"uid"`), 400, refit.BadRequest},
		{"a field twice", change(`{"pod"`, `{"node":"node","pod"`), 400, refit.BadRequest},
		{"a field spelled otherwise", change(`"node"`, `"Node"`), 400, refit.BadRequest},
		{"two requests", good + good, 400, refit.BadRequest},
		{"nothing allowed", change(`"GPU-b"`, ""), 400, refit.BadRequest},
		{"too many allowed", change(`"GPU-b"`, list(`"a"`, refit.MaxAllowed+1)), 400, refit.BadRequest},
		{"too large", change(`"GPU-b"`, list(`"GPU-b"`, refit.MaxBody/8)), 413, refit.TooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t)
			s.refuses(t, "good", []byte(test.body), test.status, test.refused)
			equal(t, "calls", []string{"review"}, s.Calls)
		})
	}
}

func TestOnlyOnePathIsServed(t *testing.T) {
	s := newService(t)
	for _, test := range []struct{ method, path string }{
		{http.MethodGet, refit.Path}, {http.MethodPut, refit.Path}, {http.MethodPost, "/"},
		{http.MethodPost, refit.Path + "/"}, {http.MethodGet, "/metrics"},
	} {
		status, a := s.send(t, test.method, test.path, "good", body(t, request("GPU-b")))
		if status != 400 || rt.Reason(a.Refusal) != refit.BadRequest {
			t.Errorf("%s %s: %d, %v", test.method, test.path, status, a.Refusal)
		}
	}
	equal(t, "calls", nil, s.Calls)
}

// Plain HTTP, and what is neither HTTP nor TLS, is refused and counted; old TLS is refused.
func TestOnlyTLSIsServed(t *testing.T) {
	s := newService(t)
	for sent, want := range map[string]string{
		"GET " + refit.Path + " HTTP/1.1\r\nHost: x\r\n\r\n": "HTTP/1.0 400 Bad Request",
		"\x00\x01 garbage of some length\r\n\r\n":            "",
	} {
		conn, err := net.Dial("tcp", s.address)
		must(t, err)
		defer conn.Close()
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn) // until the server closes it
		if !strings.HasPrefix(string(answer), want) || want != "" && !strings.Contains(string(answer), "HTTPS") {
			t.Errorf("%q is answered with %q", sent, answer)
		}
	}
	for version, want := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		config := s.client.Transport.(*http.Transport).TLSClientConfig.Clone()
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, version
		conn, err := tls.Dial("tcp", s.address, config)
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if conn != nil {
			conn.Close()
		}
	}
	equal(t, "calls", nil, s.Calls)
	if got := s.counted(refused, refit.PlainHTTP); got != 2 {
		t.Errorf("counted %d times", got)
	}
}

// A request has its time, whatever is slow; a defect ends one request, not the service.
func TestTroubleIsOneQuestions(t *testing.T) {
	s := newService(t)
	s.Budget = 20 * time.Millisecond
	s.OnCall = func(call string) error {
		if strings.HasPrefix(call, "pods of") {
			<-time.After(time.Second) // longer than the budget
			return context.DeadlineExceeded
		}
		return nil
	}
	s.refuses(t, "good", body(t, request("GPU-b")), 504, refit.TooLate)
	s.OnCall = func(string) error { panic("a defect") }
	if a := s.refuses(t, "good", body(t, request("GPU-b")), 500, refit.Internal); strings.Contains(a.Message,
		"defect") {
		t.Errorf("a panic: %s", a.Message)
	}
}

// Every series is there before anything is counted.
func TestMetricsAreThereFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	there := m.requests.DeleteLabelValues("moved", "") && m.requests.DeleteLabelValues("kept", "")
	for _, f := range refit.Reasons() {
		there = there && m.requests.DeleteLabelValues("refused", string(f.Reason))
	}
	if !there {
		t.Error("a result or reason has no series")
	}
	problems, err := testutil.GatherAndLint(registry)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// An event's note is one that the API server accepts.
func TestEventsAreShort(t *testing.T) {
	s := &service{API: fakeapi.New(rt.Pod("p"), nil)}
	h := &Handler{Events: s}
	long := strings.Repeat("ä", 5000)
	q := &refit.Request{Container: refit.Container{Name: strings.Repeat("x", 63)}} // a name's bound
	answered := func(a *refit.Answer) decide.Outcome {
		return decide.Outcome{Response: refit.Response{Answer: a}, Pod: s.Target}
	}
	h.record(q, decide.Refused(refit.Refuse(refit.UnreadableNeighbour, "%s", long), s.Target))
	h.record(q, answered(&refit.Answer{Devices: []string{long}, Moved: true}))
	h.record(q, answered(&refit.Answer{}))
	h.record(q, decide.Refused(refit.Refuse(refit.PodGone, ""), nil))
	if len(s.events) != 2 || s.longest > 1024 {
		t.Errorf("%v, the longest of %d bytes", s.events, s.longest)
	}
}

// What is accepted is within bounds and says the same when it is written and read again; nothing panics.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"pod":{"namespace":"team","name":"p","uid":"u"},"node":"node",` +
		`"container":{"name":"app","position":0},"family":"NVIDIA","allowed":["GPU-b"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := decode(text)
		if err != nil {
			if len(err.Error()) > 4*len(text)+1000 {
				t.Errorf("an error of %d bytes about %d", len(err.Error()), len(text))
			}
			return
		}
		if err := q.Check(); err != nil {
			t.Errorf("accepted although %v", err)
		}
		again, err := decode(body(t, q))
		if diff := cmp.Diff(q, again); diff != "" || err != nil {
			t.Errorf("%s, %v", diff, err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
