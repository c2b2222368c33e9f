package server

import (
	"encoding/json"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Whatever is in a result, decoding gives what decoding encoding/json's output gives.
func TestEncode(t *testing.T) {
	same := func(names *[]string, failed, lasting map[string]string, message string) bool {
		r := &extenderv1.ExtenderFilterResult{NodeNames: names, FailedNodes: failed, FailedAndUnresolvableNodes: lasting, Error: message}
		plain, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fast, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		var want, got extenderv1.ExtenderFilterResult
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
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	same(nil, nil, nil, "")
	same(&[]string{}, map[string]string{}, map[string]string{}, `"quoted" \ and
more`)
	same(&[]string{"a", "b"}, map[string]string{"c": "no", "d": "<no>"}, nil, "é")
}
