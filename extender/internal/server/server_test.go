package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// fake answers like an extender that places pods on the node "yes" only.
type fake struct{ unready error }

func (f fake) Ready() error { return f.unready }

func (fake) Filter(_ context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	if args.Pod == nil || args.NodeNames == nil {
		return &extenderv1.ExtenderFilterResult{Error: "incomplete"}
	}
	r := &extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{}}
	for _, n := range *args.NodeNames {
		if strings.HasPrefix(n, "yes") {
			*r.NodeNames = append(*r.NodeNames, n)
		} else {
			r.FailedNodes[n] = "no"
		}
	}
	return r
}

func (fake) Prioritize(_ context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	if args.NodeNames == nil {
		return nil, errors.New("incomplete")
	}
	return extenderv1.HostPriorityList{{Host: "yes", Score: 10}}, nil
}

func (fake) Preempt(
	_ context.Context, args *extenderv1.ExtenderPreemptionArgs,
) (*extenderv1.ExtenderPreemptionResult, error) {
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
}

func (fake) Bind(_ context.Context, args *extenderv1.ExtenderBindingArgs) error {
	if args.PodName == "panic" {
		panic("bug")
	}
	if args.Node != "yes" {
		return errors.New("no")
	}
	return nil
}

// handler serves a fake and counts its calls, by verb and result.
func handler(f fake) (http.Handler, counts) {
	c := counts{}
	return Extender(Calls{f, f, f, f}, c, zap.NewNop()), c
}

type counts map[string]int

func (c counts) Request(verb, result string, _ time.Duration) { c[verb+" "+result]++ }

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
	h, results := handler(fake{})
	const (
		answer  = `{"Nodes":null,"NodeNames":%s,"FailedNodes":%s,"FailedAndUnresolvableNodes":null,"Error":%q}`
		others  = `{"b":"no"}`
		lots    = `{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"many"}}}]}}}`
		victims = `"yes":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}`
	)
	incomplete := fmt.Sprintf(answer, "null", "null", "incomplete")
	for name, test := range map[string]struct {
		verb, body string
		code       int
		want       string
	}{
		"filter":            {"filter", `{"Pod":{},"NodeNames":["yes","b"]}`, 200, fmt.Sprintf(answer, `["yes"]`, others, "")},
		"filter, none":      {"filter", `{"Pod":{},"NodeNames":["b"]}`, 200, fmt.Sprintf(answer, `[]`, others, "")},
		"filter, error":     {"filter", `{}`, 200, incomplete},
		"null":              {"filter", `null`, 200, incomplete},
		"prioritize":        {"prioritize", `{"NodeNames":[]}`, 200, `[{"Host":"yes","Score":10}]`},
		"prioritize, error": {"prioritize", `{}`, 200, `[]`},
		"preempt": {"preempt", `{"NodeNameToMetaVictims":{` + victims + `,"b":{}}}`, 200,
			`{"NodeNameToMetaVictims":{` + victims + `}}`},
		"preempt, none": {"preempt", `{"NodeNameToMetaVictims":{"b":{}}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		"preempt, unread": {"preempt", `{"NodeNameToMetaVictims":{"lost":{}}}`, 200,
			`{"NodeNameToMetaVictims":{}}`},
		"preempt, error":      {"preempt", `{}`, 400, "incomplete"},
		"preempt, null":       {"preempt", `null`, 400, "incomplete"},
		"preempt, garbage":    {"preempt", `{"NodeNameToMetaVictims":[]}`, 400, "extender/v1"},
		"bind, error":         {"bind", `{"Node":"b"}`, 200, `{"Error":"no"}`},
		"bind, bug":           {"bind", `{"PodName":"panic"}`, 500, "internal error"},
		"empty":               {"filter", ``, 400, "extender/v1"},
		"garbage":             {"filter", `{"Pod":`, 400, "extender/v1"},
		"another shape":       {"filter", `{"NodeNames":"a"}`, 400, "extender/v1"},
		"a quantity of words": {"filter", lots, 400, "extender/v1"},
		"huge": {"filter", `{"Pod":{"metadata":{"name":"` + strings.Repeat("x", MaxBody) + `"}}}`, 413,
			"larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(h, "/"+test.verb, "application/json", test.body)
			got := strings.TrimSpace(w.Body.String())
			if w.Code != test.code || test.code == 200 && got != test.want || !strings.Contains(got, test.want) {
				t.Errorf("%d %s", w.Code, got)
			}
		})
	}
	for kind, code := range map[string]int{"application/json; charset=utf-8": 200, "": 200, "application/yaml": 415,
		"; ;": 415} {
		w := post(h, "/bind", kind, `{"Node":"yes"}`)
		want := map[int]string{200: `{"Error":""}`, 415: "application/json"}[code]
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("content type %q: %d %s", kind, w.Code, w.Body)
		}
	}
	for path, code := range map[string]int{"/filter": 405, "/preempt": 405, "/": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	want := counts{
		"filter ok": 1, "filter refused": 1, "filter error": 2, "filter bad_request": 5,
		"prioritize ok": 1, "prioritize error": 1,
		"preempt ok": 1, "preempt refused": 1, "preempt error": 1, "preempt bad_request": 3,
		"bind ok": 2, "bind error": 1, "bind panic": 1, "bind bad_request": 2,
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
}

func TestNotReady(t *testing.T) {
	h, _ := handler(fake{errors.New("books not rebuilt")})
	for _, test := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/filter", `{"Pod":{},"NodeNames":["yes"]}`, 200, `"Error":"books not rebuilt"`},
		{"/bind", `{"Node":"yes"}`, 200, `"Error":"books not rebuilt"`},
		{"/preempt", `{"NodeNameToMetaVictims":{}}`, 503, "books not rebuilt"},
	} {
		w := post(h, test.path, "application/json", test.body)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s", test.path, w.Code, w.Body)
		}
	}
}

// Whatever the body, the answer is 200 with a result, or 4xx with text; nothing panics.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{``, `null`, `[]`,
		`{"Pod":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}},"NodeNames":["a"]}`,
		`{"PodName":"p","PodUID":"u","Node":"n"}`, `{"NodeNameToMetaVictims":{"yes":null}}`, `{"NodeNames":[null]}`,
		"{\"Node\":\"\xff\"}"} {
		f.Add(body)
	}
	h, _ := handler(fake{})
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
