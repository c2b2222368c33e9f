package refit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

func TestWire(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{
			rt.Request(then('i'), 0, "GPU-b"),
			`{"pod":{"namespace":"team","name":"p","uid":"p"},"node":"n1","container":{"name":"i0","position":0},` +
				`"family":"NVIDIA","allowed":["GPU-b"]}`,
		},
		{refit.Response{Answer: &refit.Answer{Devices: []string{"GPU-b"}}}, `{"devices":["GPU-b"],"moved":false}`},
		{refit.Response{Refusal: refit.Refuse(refit.NoMemory, "no")}, `{"reason":"NoMemory","message":"no"}`},
	} {
		got, err := json.Marshal(test.value)
		if diff := cmp.Diff(test.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s, %v", diff, err)
		}
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", refit.MaxName+1)
	many := strings.Fields(strings.Repeat("x ", refit.MaxAllowed+1))
	for _, test := range []struct {
		name   string
		change func(*refit.Request)
		want   string // in the error; "" for none
	}{
		{"as it is", func(*refit.Request) {}, ""},
		{"the longest", func(r *refit.Request) { r.Pod.Name, r.Allowed[0] = long[1:], long[1:] }, ""},
		{"no namespace", func(r *refit.Request) { r.Pod.Namespace = "" }, "pod.namespace"},
		{"no name", func(r *refit.Request) { r.Pod.Name = "" }, "pod.name"},
		{"no UID", func(r *refit.Request) { r.Pod.UID = "" }, "pod.uid"},
		{"no node", func(r *refit.Request) { r.Node = "" }, "node"},
		{"a long container", func(r *refit.Request) { r.Container.Name = long }, "container.name"},
		{"no family", func(r *refit.Request) { r.Family = "" }, "family"},
		{"before the first", func(r *refit.Request) { r.Container.Position = -1 }, "container.position"},
		{"nothing allowed", func(r *refit.Request) { r.Allowed = nil }, "allowed is empty"},
		{"as many as may be", func(r *refit.Request) { r.Allowed = many[1:] }, ""},
		{"too many allowed", func(r *refit.Request) { r.Allowed = many }, "1025 devices"},
		{"an empty UUID", func(r *refit.Request) { r.Allowed = []string{"a", ""} }, "allowed[1]"},
		{"a long UUID", func(r *refit.Request) { r.Allowed = []string{long} }, "allowed[0]"},
	} {
		r := rt.Request(then('i'), 0, "GPU-b")
		test.change(r)
		err := r.Check()
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}
