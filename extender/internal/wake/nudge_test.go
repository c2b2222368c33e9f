package wake

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/phasegpu/phasegpu/extender/internal/ask"
)

// A nudge is one merge patch of one annotation, for that pod only; it is tried again until the answer is
// definite.
func TestNudge(t *testing.T) {
	for name, test := range map[string]struct {
		answers []int
		results []string
	}{
		"patched":                 {[]int{200}, []string{"nudged"}},
		"gone":                    {[]int{404}, []string{"gone"}},
		"another pod of the name": {[]int{409}, []string{"gone"}},
		"trouble, then patched":   {[]int{500, 503, 200}, []string{"failed", "failed", "nudged"}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan string, 10)
			answers := test.answers
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				requests <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(answers[0])
				answers = answers[1:]
				_, _ = w.Write([]byte(`{"kind":"Pod","apiVersion":"v1"}`))
			}))
			defer api.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			results := make(chan string, 10)
			n := NewNudger(client.CoreV1(), func() time.Time { return time.UnixMilli(1700000000123) }, func(uid, r string) { results <- uid + " " + r }, zap.NewNop())
			p := &ask.Pod{Namespace: "ns", Name: "p", UID: "u"}
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
				want := `PATCH /api/v1/namespaces/ns/pods/p application/merge-patch+json {"metadata":{"annotations":{"phasegpu.io/nudge":"1700000000123"},"uid":"u"}}`
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
