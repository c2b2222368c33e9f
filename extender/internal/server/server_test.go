package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// calls answers like an extender that lets pods go on "yes" only.
func calls() Calls {
	return Calls{
		Ready: func() error { return nil },
		Filter: func(_ context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
			if args.Pod == nil || args.NodeNames == nil {
				return &extenderv1.ExtenderFilterResult{Error: "incomplete"}
			}
			r := &extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{}}
			for _, n := range *args.NodeNames {
				if n == "yes" {
					*r.NodeNames = append(*r.NodeNames, n)
				} else {
					r.FailedNodes[n] = "no"
				}
			}
			return r
		},
		Prioritize: func(_ context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
			if args.NodeNames == nil {
				return nil, errors.New("incomplete")
			}
			return extenderv1.HostPriorityList{{Host: "yes", Score: 10}}, nil
		},
		Preempt: func(_ context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
			if args.NodeNameToMetaVictims == nil {
				return nil, errors.New("incomplete")
			}
			r := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
			for n, victims := range args.NodeNameToMetaVictims {
				if n == "lost" {
					return r, errors.New("the API server is away")
				}
				if n == "yes" {
					r.NodeNameToMetaVictims[n] = victims
				}
			}
			return r, nil
		},
		Bind: func(_ context.Context, args *extenderv1.ExtenderBindingArgs) error {
			if args.PodName == "panic" {
				panic("bug")
			}
			if args.Node != "yes" {
				return errors.New("no")
			}
			return nil
		},
	}
}

func post(h http.Handler, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Kubernetes' contract: failures of the work are 200 with Error set, bodies that are none of the
// contract's are 4xx with the reason.
func TestContract(t *testing.T) {
	m := NewMetrics()
	h := Extender(calls(), m, zap.NewNop())
	huge := `{"Pod":{"metadata":{"name":"` + strings.Repeat("x", MaxBody) + `"}}}`
	for name, test := range map[string]struct {
		path, kind, body string
		code             int
		want             string
	}{
		"filter":              {"/filter", "application/json", `{"Pod":{},"NodeNames":["yes","b"]}`, 200, `{"Nodes":null,"NodeNames":["yes"],"FailedNodes":{"b":"no"},"FailedAndUnresolvableNodes":null,"Error":""}`},
		"filter, none":        {"/filter", "application/json", `{"Pod":{},"NodeNames":["b"]}`, 200, `{"Nodes":null,"NodeNames":[],"FailedNodes":{"b":"no"},"FailedAndUnresolvableNodes":null,"Error":""}`},
		"filter, error":       {"/filter", "application/json", `{}`, 200, `{"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":"incomplete"}`},
		"null":                {"/filter", "application/json", `null`, 200, `{"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":"incomplete"}`},
		"charset":             {"/bind", "application/json; charset=utf-8", `{"Node":"yes"}`, 200, `{"Error":""}`},
		"no content type":     {"/bind", "", `{"Node":"yes"}`, 200, `{"Error":""}`},
		"prioritize":          {"/prioritize", "application/json", `{"NodeNames":[]}`, 200, `[{"Host":"yes","Score":10}]`},
		"prioritize, error":   {"/prioritize", "application/json", `{}`, 200, `[]`},
		"preempt":             {"/preempt", "application/json", `{"NodeNameToMetaVictims":{"yes":{"Pods":[{"UID":"u"}],"NumPDBViolations":1},"b":{}}}`, 200, `{"NodeNameToMetaVictims":{"yes":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}`},
		"preempt, none":       {"/preempt", "application/json", `{"NodeNameToMetaVictims":{"b":{}}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		"preempt, unread":     {"/preempt", "application/json", `{"NodeNameToMetaVictims":{"lost":{}}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		"preempt, error":      {"/preempt", "application/json", `{}`, 400, "incomplete"},
		"preempt, null":       {"/preempt", "application/json", `null`, 400, "incomplete"},
		"preempt, garbage":    {"/preempt", "application/json", `{"NodeNameToMetaVictims":[]}`, 400, "extender/v1"},
		"bind, error":         {"/bind", "application/json", `{"Node":"b"}`, 200, `{"Error":"no"}`},
		"bind, bug":           {"/bind", "application/json", `{"PodName":"panic"}`, 500, "internal error"},
		"empty":               {"/filter", "application/json", ``, 400, "extender/v1"},
		"garbage":             {"/filter", "application/json", `{"Pod":`, 400, "extender/v1"},
		"another shape":       {"/filter", "application/json", `{"NodeNames":"a"}`, 400, "extender/v1"},
		"a quantity of words": {"/filter", "application/json", `{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"many"}}}]}}}`, 400, "extender/v1"},
		"huge":                {"/filter", "application/json", huge, 413, "larger than"},
		"another type":        {"/filter", "application/yaml", `{}`, 415, "application/json"},
		"no type at all":      {"/filter", "; ;", `{}`, 415, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(h, test.path, test.kind, test.body)
			got := strings.TrimSpace(w.Body.String())
			if w.Code != test.code || test.code == 200 && got != test.want || !strings.Contains(got, test.want) {
				t.Errorf("%d %s", w.Code, got)
			}
		})
	}
	for path, code := range map[string]int{"/filter": 405, "/preempt": 405, "/": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	results := map[string]uint64{}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "phasegpu_extender_request_duration_seconds" {
			for _, metric := range f.GetMetric() {
				results[metric.GetLabel()[1].GetValue()+" "+metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	want := map[string]uint64{
		"filter ok": 1, "filter refused": 1, "filter error": 2, "filter bad_request": 7, "prioritize ok": 1, "prioritize error": 1,
		"preempt ok": 1, "preempt refused": 1, "preempt error": 1, "preempt bad_request": 3, "bind ok": 2, "bind error": 1, "bind panic": 1,
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
}

func TestNotReady(t *testing.T) {
	c := calls()
	c.Ready = func() error { return errors.New("books not rebuilt") }
	h := Extender(c, NewMetrics(), zap.NewNop())
	for path, body := range map[string]string{"/filter": `{"Pod":{},"NodeNames":["yes"]}`, "/bind": `{"Node":"yes"}`} {
		if w := post(h, path, "application/json", body); w.Code != 200 || !strings.Contains(w.Body.String(), `"Error":"books not rebuilt"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := post(h, "/preempt", "application/json", `{"NodeNameToMetaVictims":{}}`); w.Code != 503 || !strings.Contains(w.Body.String(), "books not rebuilt") {
		t.Errorf("/preempt: %d %s", w.Code, w.Body)
	}
}

func TestHealth(t *testing.T) {
	var unready error
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_gauge"}))
	ui := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page " + r.URL.Path)) })
	h := Health(func() error { return unready }, registry, func() any { return map[string]int{"generation": 7} }, ui)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "some_gauge 0", "/debug/ledger": `"generation": 7`,
		"/ui/": "page /ui/", "/ui/state.json": "page /ui/state.json"} {
		if code, body := get(path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/", "/ui"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if to := w.Header().Get("Location"); w.Code/100 != 3 || to != "/ui/" {
			t.Errorf("%s: %d to %q", path, w.Code, to)
		}
	}
	unready = errors.New("shutting down")
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
}

// On shutdown what is under way is ended first and then answered.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, stop := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-stop
		_, _ = w.Write([]byte("withdrawn"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, time.Minute, func(context.Context) { close(stop) }, Listener{Listener: l, Handler: h})
	}()
	answered := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = r.Body.Close() }()
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		answered <- string(body[:n])
	}()
	<-entered
	cancel()
	if got := <-answered; got != "withdrawn" {
		t.Errorf("answered %q", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), time.Minute, func(context.Context) {}, Listener{Listener: l, Handler: h}); err == nil {
		t.Error("serving a closed listener succeeds")
	}
}

func TestLogger(t *testing.T) {
	if _, err := Logger("loud"); err == nil || !strings.Contains(err.Error(), "--log-level") {
		t.Errorf("got %v", err)
	}
}

// Whatever the body, the answer is 200 with a result, or 4xx with text; nothing panics.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{``, `null`, `[]`, `{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}},"NodeNames":["a"]}`,
		`{"PodName":"p","PodUID":"u","Node":"n"}`, `{"NodeNameToMetaVictims":{"yes":null}}`, `{"NodeNames":[null]}`, "{\"Node\":\"\xff\"}"} {
		f.Add(body)
	}
	h := Extender(calls(), NewMetrics(), zap.NewNop())
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/filter", "/prioritize", "/preempt", "/bind"} {
			w := post(h, path, "application/json", body)
			switch {
			case w.Code == 200:
				if !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s: %q", path, w.Body)
				}
			case w.Code < 400 || w.Code >= 500 || w.Body.Len() == 0:
				if !strings.Contains(body, "panic") {
					t.Errorf("%s: %d %q", path, w.Code, w.Body)
				}
			}
		}
	})
}
