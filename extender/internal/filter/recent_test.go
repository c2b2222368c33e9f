package filter

import (
	"fmt"
	"testing"

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Bind finds the last pods that Filter saw and that are not bound, none with enormous selectors, each as seen last.
func TestRecent(t *testing.T) {
	r := NewRecent(3)
	put := func(uid string, selectorBytes int) *podrequest.Request {
		p := &podrequest.Request{UID: uid, SelectorBytes: selectorBytes}
		r.Put(p)
		return p
	}
	want := func(kept ...string) {
		t.Helper()
		if r.requests.Len() != len(kept) {
			t.Errorf("%d requests are kept, want %v", r.requests.Len(), kept)
		}
		for _, uid := range kept {
			if r.Get(uid) == nil {
				t.Errorf("%s is not kept", uid)
			}
		}
	}
	for i := range 3 {
		put(fmt.Sprint("p", i), 0)
	}
	want("p0", "p1", "p2")
	put("p3", maxSelectorBytes)
	want("p1", "p2", "p3")
	r.Drop("p2")
	r.Drop("never seen")
	want("p1", "p3")
	put("huge", maxSelectorBytes+1)
	put("p1", maxSelectorBytes+1) // its annotations were changed
	want("p3")
	if again := put("p3", 5); r.Get("p3") != again {
		t.Error("p3 is kept as it was before")
	}
	want("p3")
}
