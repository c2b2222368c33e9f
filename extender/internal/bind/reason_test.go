package bind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// What becomes of a binding is told: to whom it bound the pod, how long it waited, and why it failed.
func TestTold(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	var all []*corev1.Pod
	for name, mib := range map[string]int64{"a": 6000, "same": 6000, "large": 90000, "other": 100, "late": 100} {
		pods[name] = gpuPod(name, mib)
		all = append(all, pods[name])
	}
	w := newWorld(t, all...)
	var mu sync.Mutex
	var told []string
	tell := func(what string) { mu.Lock(); defer mu.Unlock(); told = append(told, what) }
	w.Bound = func(p *podrequest.Request, node string, a device.Allocation) {
		tell(fmt.Sprint("bound ", p, " ", node, " ", a[1][0].UUID))
	}
	w.Waited = func(_ time.Duration, entered bool) { tell(fmt.Sprint("waited ", entered)) }
	w.Failed = func(reason string) {
		tell(reason)
		if !slices.Contains(Reasons(), reason) {
			t.Errorf("%q is not listed", reason)
		}
	}
	bind := func(pod *corev1.Pod, want ...string) {
		t.Helper()
		_ = w.Bind(t.Context(), to(pod, "n1"))
		w.running.Wait() // an impatient Bind answers while its attempt is still giving up
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("pod %s: %s", pod.Name, diff)
		}
		told = nil
	}
	bind(pods["a"], "waited true", "bound ns/a n1 n1-G0")
	bind(pods["a"]) // it is bound: nothing is told again
	bind(pods["same"], "waited true", "bound ns/same n1 n1-G0")
	bind(pods["large"], "no_room")
	bind(gpuPod("nowhere", 1), "gone")

	w.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 12050}}})
	bind(pods["other"], "quota")
	w.book.RemoveQuota("ns", "q")

	w.Timeout = 10 * time.Millisecond // kubelet has not reported on the first two
	bind(pods["other"], "waited false", "gate")
	w.Timeout = time.Minute

	w.mu.Lock()
	w.may = errors.New("another is in office")
	w.mu.Unlock()
	bind(pods["late"], "not_leading")

	w.Stop(context.Background())
	bind(pods["late"]) // nothing was begun
}
