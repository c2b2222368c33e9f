package bind

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/metrics"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/gen/baseline"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// post is where a benchmark ends: an API server that takes every binding at once.
type post struct {
	corev1client.PodInterface
	bound int
}

func (p *post) Pods(string) corev1client.PodInterface { return p }

func (p *post) Bind(context.Context, *corev1.Binding, metav1.CreateOptions) error {
	p.bound++
	return nil
}

// none is everything beside the binder, doing nothing.
type none struct{}

func (none) NodeFreed(string)                                     {}
func (none) Ready() error                                         { return nil }
func (none) MayBind(context.Context) error                        { return nil }
func (none) Observe(ledger.Delta)                                 {}
func (none) Bound(*podrequest.Request, string, device.Allocation) {}
func (none) GateWaited(time.Duration, bool)                       {}
func (none) BindFailed(string)                                    {}

// BenchmarkBind is one Bind call of kube-scheduler, HTTP handler in up to the POST and out, for a pod that Filter
// has seen, over clusters of nodes with 8 devices and 8 pods each. Of ours it includes the withdrawal that makes
// the next call possible.
func BenchmarkBind(b *testing.B) {
	pod := baseline.Pod("new", 6000, 1000, 4000)
	for _, nodes := range []int{100, 1000, 5000} {
		c := baseline.New(nodes, 8)
		node := c.Nodes[nodes/2].Name
		body, err := json.Marshal(to(pod, node))
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("nodes=%d/pods=%d", nodes, len(c.Pods))
		b.Run(name+"/by=phasegpu", func(b *testing.B) {
			api := &post{}
			binder := New(Config{
				Pods: api, Book: c.Book(), Gate: gate.New(time.Now, none{}), Recent: filter.NewRecent(8),
				Lease: none{}, Requeue: none{}, Events: none{}, Metrics: none{},
				Now: time.Now, Timeout: time.Minute, Log: zap.NewNop(),
			})
			defer binder.Stop(context.Background())
			p, err := podrequest.Parse(pod, podrequest.Defaults{})
			if err != nil {
				b.Fatal(err)
			}
			h := server.Extender(server.Calls{Readiness: none{}, Binder: binder}, metrics.New(metrics.Labels{}),
				zap.NewNop())
			calls := 0
			for b.Loop() {
				binder.Recent.Put(p) // Filter has seen it
				serveBind(b, h, body)
				binder.undo(p.UID)
				calls++
			}
			if api.bound != calls {
				b.Errorf("%d bindings in %d calls", api.bound, calls)
			}
		})
		b.Run(name+"/by=peer", func(b *testing.B) {
			api, accountant := &post{}, c.Accountant()
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var args extenderv1.ExtenderBindingArgs
				if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				allocation, _, ok := accountant.Place(args.Node, accountant.Sum(), baseline.Asks(pod))
				if !ok {
					http.Error(w, "no room", http.StatusInternalServerError)
					return
				}
				annotations := kube.AllocationAnnotations(allocation)
				annotations[wire.NodeAnnotation] = args.Node
				annotations[wire.TimeAnnotation] = strconv.FormatInt(time.Now().Unix(), 10)
				binding := metav1.ObjectMeta{Name: args.PodName, UID: args.PodUID, Annotations: annotations}
				_ = api.Bind(r.Context(), &corev1.Binding{ObjectMeta: binding}, metav1.CreateOptions{})
				_ = json.NewEncoder(w).Encode(extenderv1.ExtenderBindingResult{})
			})
			for b.Loop() {
				serveBind(b, h, body)
			}
		})
	}
}

func serveBind(b *testing.B, h http.Handler, body []byte) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/bind", bytes.NewReader(body)))
	if w.Code != http.StatusOK || bytes.Contains(w.Body.Bytes(), []byte("no longer")) {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}
