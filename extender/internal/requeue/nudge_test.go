package requeue

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// recorded are results of nudges: "uid result".
type recorded chan string

func (r recorded) NudgeDone(uid, result string) { r <- uid + " " + result }

func answer(code int) []byte {
	if code == http.StatusOK {
		return []byte(`{"kind":"Pod","apiVersion":"v1"}`)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
	}
	switch code {
	case http.StatusNotFound:
		status.Reason = metav1.StatusReasonNotFound
	case http.StatusConflict:
		status.Reason = metav1.StatusReasonConflict
	case http.StatusUnprocessableEntity:
		status.Reason = metav1.StatusReasonInvalid
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"},
		}}
	}
	body, _ := json.Marshal(status)
	return body
}

// A nudge is one merge patch of one annotation, for that pod only; it is tried again until the answer is
// definite.
func TestNudge(t *testing.T) {
	for name, test := range map[string]struct {
		answers []int
		results []string
	}{
		"patched":                    {[]int{200}, []string{"nudged"}},
		"gone":                       {[]int{404}, []string{"gone"}},
		"another pod of the name":    {[]int{422}, []string{"gone"}}, // as a real API server has it, see e2e/scenarios
		"trouble, then patched":      {[]int{500, 503, 200}, []string{"failed", "failed", "nudged"}},
		"too busy, then patched":     {[]int{429, 200}, []string{"failed", "nudged"}},
		"others wrote, then patched": {[]int{409, 200}, []string{"failed", "nudged"}},
		"refused for good":           {[]int{403}, []string{"refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan string, 10)
			answers := test.answers
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				requests <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
				w.Header().Set("Content-Type", "application/json")
				code := answers[0]
				answers = answers[1:]
				w.WriteHeader(code)
				_, _ = w.Write(answer(code))
			}))
			defer api.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			results := make(recorded, 10)
			now := func() time.Time { return time.UnixMilli(1700000000123) }
			n := NewNudger(client.CoreV1(), now, results, zap.NewNop())
			p := &podrequest.Request{Namespace: "ns", Name: "p", UID: "u"}
			n.Nudge(p)
			n.Nudge(p) // once is enough
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { n.Run(ctx); close(ended) }()
			for _, want := range test.results {
				if got := <-results; got != "u "+want {
					t.Errorf("result %q, want %q", got, want)
				}
			}
			cancel()
			<-ended
			close(requests)
			for r := range requests {
				want := `PATCH /api/v1/namespaces/ns/pods/p application/merge-patch+json ` +
					`{"metadata":{"annotations":{"phasegpu.io/nudge":"1700000000123"},"uid":"u"}}`
				if diff := cmp.Diff(want, r); diff != "" {
					t.Error(diff)
				}
			}
			if len(answers) != 0 {
				t.Errorf("%d answers were not asked for", len(answers))
			}
		})
	}
}

// A nudge that the API server is slow to answer does not hold up the others.
func TestSlowNudge(t *testing.T) {
	end := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			<-end
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer(http.StatusOK))
	}))
	defer api.Close()
	defer close(end)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	results := make(recorded, 100)
	n := NewNudger(client.CoreV1(), time.Now, results, zap.NewNop())
	n.Nudge(&podrequest.Request{Namespace: "ns", Name: "slow", UID: "slow"})
	for i := range 20 {
		n.Nudge(&podrequest.Request{Namespace: "ns", Name: fmt.Sprint("p", i), UID: fmt.Sprint("p", i)})
	}
	go n.Run(t.Context())
	for range 20 {
		select {
		case r := <-results:
			if !strings.HasSuffix(r, " nudged") || strings.HasPrefix(r, "slow") {
				t.Error(r)
			}
		case <-time.After(4 * time.Second): // a call is given up after five
			t.Fatal("the others wait for the slow one")
		}
	}
}
