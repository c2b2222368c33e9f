package server

import (
	"encoding/json"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// sameAsJSON reports whether decoding what encode writes gives what decoding encoding/json's output gives.
func sameAsJSON[R any](t *testing.T, result R) bool {
	t.Helper()
	plain, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := encode(result)
	if err != nil {
		t.Fatal(err)
	}
	var want, got R
	if err := json.Unmarshal(plain, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fast, &got); err != nil {
		t.Errorf("%s: %v", fast, err)
		return false
	}
	diff := cmp.Diff(want, got)
	if diff != "" {
		t.Error(diff)
	}
	return diff == ""
}

// Whatever is in a result, it is read as encoding/json's output is.
func TestEncode(t *testing.T) {
	same := func(names *[]string, failed, lasting map[string]string, message string) bool {
		return sameAsJSON(t, &extenderv1.ExtenderFilterResult{NodeNames: names, FailedNodes: failed,
			FailedAndUnresolvableNodes: lasting, Error: message})
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	same(nil, nil, nil, "")
	same(&[]string{}, map[string]string{}, map[string]string{}, `"quoted" \ and
more`)
	same(&[]string{"a", "b"}, map[string]string{"c": "no", "d": "<no>"}, nil, "é")
}

func TestEncodeScores(t *testing.T) {
	same := func(list extenderv1.HostPriorityList) bool { return sameAsJSON(t, list) }
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	for _, list := range []extenderv1.HostPriorityList{nil, {}, {{Host: "a", Score: 10}},
		{{Host: `"\`, Score: -1}, {Host: "é"}}} {
		same(list)
	}
}
