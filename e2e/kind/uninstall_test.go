//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestReinstall: phasegpu is taken off the cluster and comes back while pods run. They go on
// running, pods come and go without it, and its books are rebuilt as they were.
func TestReinstall(t *testing.T) {
	s := kind.Begin(t)
	loading := s.Submit(kind.Pin(s.Pod("loading", stack.Init("load", stack.GPU(1, 9000)),
		stack.Sidecar("side", stack.GPU(1, 500)), stack.App("train", stack.GPU(1, 4000))), kind.CardA))
	serving := s.Submit(kind.Pin(s.Pod("serving", stack.Init("warm", stack.GPU(1, 8000)),
		stack.Sidecar("side", stack.GPU(1, 700)), stack.App("serve", stack.GPU(1, 3000), stack.Cores(20))), kind.CardC))
	leaving := s.Submit(kind.Pin(s.Pod("leaving", stack.App("app", stack.GPU(1, 1000))), kind.CardB))
	s.Finish(serving, "warm", 0)
	loading, serving = s.Running(loading, "load"), s.Running(serving, "serve")
	s.Running(leaving, "app")
	s.Reserved(kind.CardA, 9000)
	s.Reserved(kind.CardC, 3700)
	before := booksOf(s.Books())

	t.Cleanup(func() {
		if t.Failed() { // whatever is missing comes back for the tests after this one
			if err := script(context.WithoutCancel(t.Context()), s, "deploy"); err != nil {
				t.Error(err)
			}
		}
	})
	s.Must(script(t.Context(), s, "undeploy"))
	nothingRefuses(s)
	s.Ended(s.Submit(plain(s, "plain")), corev1.PodSucceeded)
	s.Delete(leaving)
	runsOn(s, loading)
	runsOn(s, serving)
	s.Must(script(t.Context(), s, "deploy"))
	runsOn(s, loading)
	runsOn(s, serving)
	s.Must(s.Cluster.AwaitAudit(t.Context()))
	if diff := cmp.Diff(before.without(leaving, kind.Worker+"/"+kind.CardB, 1000), booksOf(s.Books())); diff != "" {
		t.Errorf("books (-before +after):\n%s", diff)
	}
	s.Finish(loading, "load", 0)
	s.Must(s.Cluster.CheckRecord(t.Context(), s.Running(loading, "train")))
	s.Reserved(kind.CardA, 4500)
}

// nothingRefuses expects that nothing on the cluster keeps a pod from being created, or a namespace from being deleted.
func nothingRefuses(s *kind.Story) {
	s.Helper()
	webhooks, err := s.Cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(s.Context(),
		metav1.ListOptions{})
	s.Must(err)
	for _, w := range webhooks.Items {
		if strings.Contains(w.Name, "phasegpu") {
			s.Errorf("MutatingWebhookConfiguration %s is left", w.Name)
		}
	}
	policies, err := s.Cluster.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(s.Context(),
		metav1.ListOptions{})
	s.Must(err)
	for _, p := range policies.Items {
		if strings.Contains(p.Name, "phasegpu") {
			s.Errorf("ValidatingAdmissionPolicy %s is left", p.Name)
		}
	}
	s.Must(s.Cluster.DryRun(s.Context(), s.Pod("with-devices", stack.App("app", stack.GPU(1, 1000)))))
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{})
	s.Must(err)
	for _, p := range pods.Items {
		if len(p.Finalizers) > 0 || len(p.Spec.SchedulingGates) > 0 {
			s.Errorf("pod %s has finalizers %q and gates %v", p.Name, p.Finalizers, p.Spec.SchedulingGates)
		}
	}
}

// books are what the extender shows, without what changes with every write.
type books struct {
	Devices map[string]stack.LedgerDevice // by "node/uuid"
	Pods    map[string]stack.LedgerPod
	Used    map[string]stack.Amount // by "namespace/family"
}

func booksOf(l *stack.Ledger) books {
	b := books{map[string]stack.LedgerDevice{}, map[string]stack.LedgerPod{}, l.Used()}
	for _, n := range l.Nodes {
		for _, d := range n.Devices {
			b.Devices[n.Name+"/"+d.UUID] = d
		}
		for _, p := range n.Pods {
			b.Pods[p.Name] = p
		}
	}
	return b
}

// without takes out a pod that had so much memory of one device, and was alone there.
func (b books) without(pod *corev1.Pod, device string, memoryMiB int64) books {
	delete(b.Pods, pod.Name)
	d := b.Devices[device]
	d.Reserved = stack.Amount{}
	b.Devices[device] = d
	used := b.Used[pod.Namespace+"/NVIDIA"]
	b.Used[pod.Namespace+"/NVIDIA"] = stack.Amount{Slots: used.Slots - 1, MemoryMiB: used.MemoryMiB - memoryMiB,
		Cores: used.Cores}
	return b
}

// runsOn expects that the containers which ran of a pod run on, never restarted.
func runsOn(s *kind.Story, pod *corev1.Pod) {
	s.Helper()
	now := s.Get(pod)
	for _, was := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		is := stack.ContainerStatus(now, was.Name)
		if was.State.Running != nil && (is.State.Running == nil || is.ContainerID != was.ContainerID) {
			s.Errorf("pod %s ran and is %s", pod.Name, stack.Describe(now))
		}
	}
}

// script runs a script of kind/.
func script(ctx context.Context, s *kind.Story, name string, args ...string) error {
	began := time.Now()
	out, err := exec.CommandContext(ctx, filepath.Join(s.Cluster.Root, "kind", name), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kind/%s: %w\n%s", name, err, out)
	}
	s.Logf("kind/%s: %.0f s", strings.Join(append([]string{name}, args...), " "), time.Since(began).Seconds())
	return nil
}
