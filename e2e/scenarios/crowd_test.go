package scenarios_test

import (
	"fmt"
	"os"
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

// TestCrowd: very many pods wait that do not fit, and memory is freed little by little. Each release wakes about as
// many as it has room for, no pod is woken again and again, the extender does not throttle itself, and pods that ask
// for something else are scheduled all the while. CROWD=10000 makes the crowd larger than is practical in every run.
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
	writes := newWrites()
	end, err := s.Intercept(ctx, writes.wrap)
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
	d := s.Drive(t, "others")

	t.Run("an API server refuses a nudge that another pod of the name would get", func(t *testing.T) {
		d.Running(d.Submit(inPool("others", "named", "free", 1000)), "app")
		patch := `{"metadata":{"uid":"0f0f0f0f-0000-4000-8000-000000000000","annotations":{"phasegpu.io/nudge":"1"}}}`
		pods := s.Client.CoreV1().Pods("others")
		_, err := pods.Patch(ctx, "named", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("it answers %v: the extender takes another answer for a pod that is there", err)
		}
	})
	t.Run("alone", func(t *testing.T) { others.come(t, 15, nil) })

	var holders []*corev1.Pod
	for i := range freed + 4 {
		holders = append(holders, d.Running(d.Submit(inPool("waiting", fmt.Sprint("holder-", i), "full", 8000)), "app"))
	}
	all := createAtOnce(t, s, waiting, func(i int) *corev1.Pod {
		return inPool("waiting", fmt.Sprintf("waiting-%05d", i), "full", 8000)
	})
	for _, pod := range all {
		_, _, err := w.Within(ctx, 10*time.Minute, pod, "is found unschedulable", stack.Unschedulable())
		must(t, err)
	}
	if n, _ := writes.patched(); n != 0 {
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
		awaitBound(t, s, "waiting", len(holders), 5*time.Minute)
		must(t, s.AwaitAudit(ctx))
		nudged, most := writes.patched()
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
		d.AwaitBooks("pods wait at the gate", func(l *stack.Ledger) error {
			if len(l.Gates) != 1 || l.Gates[0].Waiting < 6 {
				return fmt.Errorf("gates: %+v", l.Gates)
			}
			return nil
		})
		others.come(t, 15, nil)
		n := 0
		for _, pod := range stuck {
			if last, _ := w.Last(pod); last != nil && last.Spec.NodeName != "" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d pods are bound to the node whose kubelet does not report, so its gate was not shut", n)
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

// others are pods that are independent of those that wait: by turns with devices and without.
type others struct {
	*stack.Stack
	w    *stack.Witness
	next int
}

// come creates others one after the other, so many or until done, each when the one before is bound. It logs how long
// they took, and returns the most calls of Filter between a pod's creation and its binding.
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
		began, before := time.Now(), filters(t, o.Stack, "ok", "refused")
		_, bound, err := o.w.AwaitBound(ctx, pod)
		must(t, err)
		took = append(took, bound.Sub(began))
		tried = append(tried, filters(t, o.Stack, "ok", "refused")-before)
		now := int64(0)
		must(t, o.Client.CoreV1().Pods("others").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	t.Logf("from creation to binding, with up to %d calls of Filter between:\n%s", slices.Max(tried),
		stack.Distribution(took))
	return slices.Max(tried)
}

// quietExtender expects of the extender no event about a pod of the namespace but one for each that is bound, and that
// it has not throttled itself.
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
	noThrottling(t, s)
}
