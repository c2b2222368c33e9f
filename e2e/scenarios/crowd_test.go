package scenarios_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestCrowd is case 51: very many pods wait that do not fit, and memory is freed little by little. Each release
// wakes about as many as it has room for, no pod is woken over and over, nobody throttles, and who asks for
// something else is scheduled all the while. CROWD=10000 makes the crowd larger than a test of every day can.
func TestCrowd(t *testing.T) {
	const freed = 6
	waiting := 400
	if text := os.Getenv("CROWD"); text != "" {
		var err error
		waiting, err = strconv.Atoi(text)
		must(t, err)
	}
	ctx := t.Context()
	s := stack.StartT(t, stack.Options{Scheduler: stack.Patient})
	patched := &patches{count: map[string]int{}}
	end, err := s.Intercept(ctx, patched.wrap)
	if end != nil {
		defer end()
	}
	must(t, err)
	for _, namespace := range []string{"waiting", "others"} {
		must(t, s.Namespace(ctx, namespace))
	}
	for _, n := range []nodesim.Node{
		{Name: "full", Devices: nodesim.GPUs("full", freed+4, 8192)},
		{Name: "free", Devices: nodesim.GPUs("free", 8, 24576)},
		{Name: "busy", Devices: nodesim.GPUs("busy", 4, 24576)},
	} {
		n.Labels = map[string]string{"pool": n.Name}
		must(t, s.Sim.AddNode(ctx, n))
		must(t, s.AwaitNode(ctx, n.Name, n.Devices))
	}
	w, err := s.Witness(ctx)
	must(t, err)
	others := &others{Stack: s, w: w}

	t.Run("an API server refuses a nudge that another pod of the name would get", func(t *testing.T) {
		must(t, s.Sim.AwaitRunning(ctx, submit(t, s, inPool("others", "named", "free", 1000)), "app"))
		_, err := s.Client.CoreV1().Pods("others").Patch(ctx, "named", types.MergePatchType,
			[]byte(`{"metadata":{"uid":"0f0f0f0f-0000-4000-8000-000000000000","annotations":{"phasegpu.io/nudge":"1"}}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("it answers %v: the extender takes another answer for a pod that is there", err)
		}
	})
	t.Run("alone", func(t *testing.T) { others.come(t, 15, nil) })

	var holders []*corev1.Pod
	for i := range freed + 4 {
		pod := submit(t, s, inPool("waiting", fmt.Sprint("holder-", i), "full", 8000))
		must(t, s.Sim.AwaitRunning(ctx, pod, "app"))
		holders = append(holders, pod)
	}
	all := createAtOnce(t, s, waiting, func(i int) *corev1.Pod {
		return inPool("waiting", fmt.Sprintf("waiting-%05d", i), "full", 8000)
	})
	for _, pod := range all {
		_, _, err := w.Within(ctx, 10*time.Minute, pod, "is found unschedulable", func(p *corev1.Pod) error {
			if p.Spec.NodeName != "" || unschedulable(p) == "" {
				return fmt.Errorf("on node %q: %q", p.Spec.NodeName, unschedulable(p))
			}
			return nil
		})
		must(t, err)
	}
	if n := patched.sum(); n != 0 {
		t.Errorf("%d nudges before anything was freed", n)
	}

	t.Run("freed slowly", func(t *testing.T) {
		var freeing sync.WaitGroup
		done := make(chan struct{})
		freeing.Go(func() {
			defer close(done)
			slowly := time.NewTicker(700 * time.Millisecond)
			defer slowly.Stop()
			for _, pod := range holders[:freed] {
				if err := s.Delete(ctx, pod); err != nil {
					t.Error(err)
					return
				}
				<-slowly.C
			}
		})
		// kube-scheduler tries whom an extender refused at every event, so others may wait for a look at all.
		if tried := others.come(t, 0, done); tried > 4*waiting {
			t.Errorf("another pod came after %d others, of %d", tried, waiting)
		}
		freeing.Wait()
		must(t, stack.Within(ctx, 5*time.Minute, "as many as there is room for are bound", func(ctx context.Context) error {
			n, err := numBound(ctx, s, "waiting")
			if err == nil && n != len(holders) {
				err = fmt.Errorf("%d pods are, want %d", n, len(holders))
			}
			return err
		}))
		must(t, s.AwaitAudit(ctx))
		nudged, most := patched.sum(), patched.most()
		t.Logf("%d nudges for room for %d of %d pods, %d for one pod at most", nudged, freed, waiting, most)
		if nudged > 2*freed || most > 2 {
			t.Errorf("%d nudges for room for %d, %d for one pod", nudged, freed, most)
		}
		quietExtender(t, s, "waiting", len(holders)+freed)
	})

	t.Run("the gate of one node", func(t *testing.T) {
		const pods = 12
		s.Sim.Pause("busy")
		stuck := createAtOnce(t, s, pods, func(i int) *corev1.Pod {
			return inPool("others", fmt.Sprint("busy-", i), "busy", int64(1000+i)) // no two are alike
		})
		must(t, stack.Eventually(ctx, "pods wait at the gate", func(ctx context.Context) error {
			l, err := s.Ledger(ctx)
			if err == nil && (len(l.Gates) != 1 || l.Gates[0].Waiting < 6) {
				err = fmt.Errorf("gates: %+v", l.Gates)
			}
			return err
		}))
		others.come(t, 15, nil)
		n := 0
		for _, pod := range stuck {
			if last := w.Last(pod); last != nil && last.Spec.NodeName != "" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d pods are bound to the node whose kubelet does not report: the others were not measured beside a shut gate", n)
		}
		s.Sim.Resume("busy")
		for _, pod := range stuck {
			_, _, err := w.AwaitBound(ctx, pod)
			must(t, err)
		}
	})
	must(t, s.Extender.Kill()) // it must not outlive its way to the API server
}

// inPool is a pod of one container for the nodes of a pool.
func inPool(namespace, name, pool string, memoryMiB int64) *corev1.Pod {
	pod := stack.NewPod(namespace, name, stack.App("app", stack.GPU(1, memoryMiB)))
	pod.Spec.NodeSelector = map[string]string{"pool": pool}
	return pod
}

func submit(t *testing.T, s *stack.Stack, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := s.Create(t.Context(), pod)
	must(t, err)
	return created
}

// others are pods that have nothing to do with those that wait: by turns with devices and without.
type others struct {
	*stack.Stack
	w    *stack.Witness
	next int
}

// come has others come one after the other, so many or until done, each bound before the next, shows how long
// each took, and returns before how many others the unluckiest was tried.
func (o *others) come(t *testing.T, many int, done <-chan struct{}) int {
	t.Helper()
	ctx := t.Context()
	var took []time.Duration
	var tried []int
	for len(took) < many || done != nil {
		select {
		case <-done:
			done = nil
			continue
		default:
		}
		pod := inPool("others", fmt.Sprint("other-", o.next), "free", 1000)
		if o.next++; o.next%2 == 0 {
			pod.Spec.Containers[0].Resources.Limits = nil
			pod.Spec.SchedulerName = stack.SchedulerName
		}
		pod, err := o.Create(ctx, pod)
		must(t, err)
		began, before := time.Now(), filters(t, o.Stack)
		_, bound, err := o.w.AwaitBound(ctx, pod)
		must(t, err)
		took = append(took, bound.Sub(began))
		tried = append(tried, filters(t, o.Stack)-before)
		now := int64(0)
		must(t, o.Client.CoreV1().Pods("others").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	t.Logf("from creation to binding, with up to %d calls of Filter between:\n%s", slices.Max(tried), stack.Distribution(took))
	return slices.Max(tried)
}

// filters is how often kube-scheduler has asked.
func filters(t *testing.T, s *stack.Stack) (n int) {
	t.Helper()
	metrics, err := s.ExtenderMetrics(t.Context())
	must(t, err)
	for _, result := range []string{"ok", "refused"} {
		if text, ok := stack.Metric(metrics, fmt.Sprintf(`phasegpu_extender_request_duration_seconds_count{result=%q,verb="filter"}`, result)); ok {
			one, err := strconv.Atoi(text)
			must(t, err)
			n += one
		}
	}
	return n
}

// quietExtender wants of the extender no event about a pod of the namespace but one for each that is bound, and no
// word of throttling.
func quietExtender(t *testing.T, s *stack.Stack, namespace string, bound int) {
	t.Helper()
	list, err := s.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	n := 0
	for _, e := range list.Items {
		if e.ReportingController == "phasegpu-extender" {
			n++
		}
	}
	if n > bound {
		t.Errorf("the extender wrote %d events about %d pods that it bound", n, bound)
	}
	log, err := os.ReadFile(filepath.Join(s.LogDir(), "phasegpu-extender.log"))
	must(t, err)
	if strings.Contains(string(log), "throttl") {
		t.Errorf("the extender's client throttles itself:\n%s", s.Extender.Tail())
	}
}

// patches counts the extender's patches, which are nudges, by the pod.
type patches struct {
	mu    sync.Mutex
	count map[string]int // by path
}

func (p *patches) wrap(apiServer http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && resource(r.URL.Path) == "pods" {
			p.mu.Lock()
			p.count[r.URL.Path]++
			p.mu.Unlock()
		}
		apiServer.ServeHTTP(w, r)
	})
}

func (p *patches) sum() (sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.count {
		sum += n
	}
	return sum
}

func (p *patches) most() (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.count {
		most = max(most, n)
	}
	return most
}
