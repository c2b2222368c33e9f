package podrequest

import (
	"fmt"
	"testing"
)

// Bind finds the pods that Filter saw last and that nobody has bound, none whose selectors are enormous, and
// each as it was seen last.
func TestRecent(t *testing.T) {
	r := NewRecent(3)
	put := func(uid string, text int) *Pod {
		p := &Pod{UID: uid, Text: text}
		r.Put(p)
		return p
	}
	want := func(kept ...string) {
		t.Helper()
		if len(r.order) != len(kept) || len(r.pods) != len(kept) {
			t.Errorf("%d pods and %v in order, want %v", len(r.pods), r.order, kept)
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
	put("p3", most)
	want("p1", "p2", "p3")
	r.Drop("p2")
	r.Drop("never seen")
	want("p1", "p3")
	put("huge", most+1)
	put("p1", most+1) // its annotations were changed
	want("p3")
	if again := put("p3", 5); r.Get("p3") != again {
		t.Error("p3 is kept as it was before")
	}
	want("p3")
}
