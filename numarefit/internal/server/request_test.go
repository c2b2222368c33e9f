package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// What is accepted is within bounds and says the same when it is written and read again; nothing panics.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"pod":{"namespace":"team","name":"p","uid":"u"},"node":"node","container":{"name":"app","position":0},"family":"NVIDIA","allowed":["GPU-b"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := decode(body)
		if err != nil {
			if len(err.Error()) > 4*len(body)+1000 {
				t.Errorf("an error of %d bytes about %d", len(err.Error()), len(body))
			}
			return
		}
		if err := q.Check(); err != nil {
			t.Errorf("accepted although %v", err)
		}
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(text)
		if diff := cmp.Diff(q, again); diff != "" || err != nil {
			t.Errorf("%s, %v", diff, err)
		}
	})
}

// An event's text has room for what the API server accepts.
func TestEventsAreShort(t *testing.T) {
	c := newCluster()
	tell := Tell(c)
	long := strings.Repeat("ä", 5000)
	q := question()
	q.Container.Name = strings.Repeat("x", 63) // as long as a container's name may be
	tell(q, decide.Outcome{Pod: c.pod, Refusal: &refit.Refusal{Reason: refit.UnreadableNeighbour, Message: long}})
	tell(q, decide.Outcome{Pod: c.pod, Answer: &refit.Answer{Devices: []string{long}, Moved: true}})
	if len(c.notes) != 2 || c.longest > 1024 {
		t.Errorf("%v, the longest of %d bytes", c.notes, c.longest)
	}
	tell(q, decide.Outcome{Pod: c.pod, Answer: &refit.Answer{}})
	tell(q, decide.Outcome{Pod: (*corev1.Pod)(nil), Refusal: &refit.Refusal{Reason: refit.PodGone}})
	if len(c.notes) != 2 {
		t.Errorf("told of nothing: %v", c.notes)
	}
}
