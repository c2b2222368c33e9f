package server

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// FuzzDecode compares decode with encoding/json: the same arguments, or an error of both.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b-1"]}`,
		`{"Pod":null,"Nodes":null,"NodeNames":[]}`, `{"NodeNames":["a"]}`, `{"NodeNames":null}`, `{}`, `null`, ``, `[]`,
		`{"NodeNames":["a",]}`, `{"NodeNames":["a" ,"b"]}`, `{"NodeNames":[,"a"]}`, `{"NodeNames":["a"}`,
		`{"NodeNames":["a]}`, `{"NodeNames":["a","]}`,
		`{"NodeNames":["\u003ca"]}`, `{"NodeNames":["é"]}`, `{"NodeNames":["a"],"Pod":{"metadata":{"name":"p"}}}`,
		`{"Pod":{"NodeNames":["a"]}}`, `{"Pod":{"NodeNames":["a"]}`, `{"NodeNames":["a"]}}`, `{"NodeNames":["a"]}x`,
		`{"NodeNames":["a"]} `,
		`{"NodeNames":["x"],"NodeNames":["a"]}`, `{"nodenames":["x"],"NodeNames":["a"]}`,
		`{"NodeNames":["a"],"nodenames":["x"]}`,
		`{"Pod":{"metadata":{"annotations":{"k":"\"NodeNames\":[\"x\"]}"}}},"NodeNames":["a"]}`,
		`{"Pod":{"metadata":{"annotations":{"k":"\"NodeNames\":[\"x\"]}"}}}}`, `{"Pod":7,"NodeNames":["a"]}`,
		`{"Nodes":{"items":[{"metadata":{"name":"n"}}]},"NodeNames":["a"]}`, `{"NodeNames":[["a"]]}`,
		`{"NodeNames":["a"b"]}`, "{\"NodeNames\":[\"a\x00\"]}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want, got extenderv1.ExtenderArgs
		wantErr, err := json.Unmarshal(body, &want), decode(body, &got)
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("%q: error %v, encoding/json's %v", body, err, wantErr)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	})
}

// As kube-scheduler writes it, a list of names costs no allocation for each.
func TestDecodeNames(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = "gpu-node-000"
	}
	body, err := json.Marshal(extenderv1.ExtenderArgs{NodeNames: &names})
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(10, func() {
		var args extenderv1.ExtenderArgs
		if err := decode(body, &args); err != nil || len(*args.NodeNames) != 1000 {
			t.Fatalf("%v, %d names", err, len(*args.NodeNames))
		}
	})
	if allocations > 50 {
		t.Errorf("%v allocations for 1000 names", allocations)
	}
}
