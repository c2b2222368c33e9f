package nodesim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/gen/await"
)

// simulation is simulated nodes on a control plane without a scheduler: the tests bind.
type simulation struct {
	*testing.T
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	sim    *nodesim.Simulator
}

// TestSimulator is one control plane for all tests; each has its own node.
func TestSimulator(t *testing.T) {
	w := simulation{T: t, cp: controlplane.StartT(t, controlplane.Options{})}
	var err error
	w.client, err = kubernetes.NewForConfig(w.cp.Admin())
	w.must(err)
	w.sim, err = nodesim.Start(t.Context(), w.cp.Admin(), nodesim.Options{})
	w.must(err)
	defer func() { w.must(w.sim.Stop()) }()
	for name, test := range map[string]func(simulation){
		"step by step":              simulation.stepByStep,
		"by plan":                   simulation.byPlan,
		"reruns":                    simulation.reruns,
		"admission":                 simulation.admission,
		"deletion":                  simulation.deletion,
		"status of one's own":       simulation.ownStatus,
		"kubelet hangs":             simulation.kubeletHangs,
		"node changes":              simulation.nodeChanges,
		"bound before the node is":  simulation.boundBefore,
		"orders that cannot be met": simulation.impossibleOrders,
	} {
		t.Run(name, func(t *testing.T) {
			w := w
			w.T = t
			test(w)
		})
	}
	// The last, because the other tests need the API server.
	t.Run("API server restarts", func(t *testing.T) {
		w := w
		w.T = t
		w.apiServerRestarts()
	})
	if overlaps := w.sim.Overlaps(); len(overlaps) != 0 {
		t.Errorf("overlaps %v of pods without recorded allocations", overlaps)
	}
}

func (w simulation) stepByStep() {
	w.node("steps", nil)
	pod := w.bind("steps", w.pod("steps", corev1.RestartPolicyNever, "i1", "i2", "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "i1"))
	got := w.get(pod)
	if got.Status.StartTime == nil || got.Status.Phase != corev1.PodPending ||
		got.Status.InitContainerStatuses[0].State.Running == nil {
		w.Fatalf("i1 runs: %+v", got.Status)
	}
	w.must(w.sim.Finish(w.ctx(), pod, "i1", 0))
	if term := w.get(pod).Status.InitContainerStatuses[0].State.Terminated; term == nil || term.ExitCode != 0 ||
		term.FinishedAt.IsZero() {
		w.Errorf("i1 finished: %+v", term)
	}
	w.must(w.sim.Finish(w.ctx(), pod, "i2", 0))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
	got = w.get(pod)
	for _, condition := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		corev1.PodScheduled,
	} {
		if !isTrue(got, condition) {
			w.Errorf("a runs: condition %s is not true", condition)
		}
	}
	w.must(w.sim.Finish(w.ctx(), pod, "a", 1))
	if got := w.get(pod).Status.Phase; got != corev1.PodFailed {
		w.Errorf("a failed: phase %s, want Failed", got)
	}
}

func (w simulation) byPlan() {
	w.node("plan", nil)
	pod := w.pod("plan", corev1.RestartPolicyOnFailure, "i1", "s", "a")
	pod.Annotations = map[string]string{nodesim.PlanAnnotation: "i1=1,0; *=0@50ms"}
	pod = w.bind("plan", pod)
	await.Until(w, "pod succeeds", func() bool { return w.get(pod).Status.Phase == corev1.PodSucceeded })
	if got := w.get(pod).Status.InitContainerStatuses[0].RestartCount; got != 1 {
		w.Errorf("i1 restarted %d times, want 1", got)
	}
}

func (w simulation) reruns() {
	w.node("reruns", nil)
	pod := w.bind("reruns", w.pod("reruns", corev1.RestartPolicyAlways, "i1", "a"))
	w.must(w.sim.Finish(w.ctx(), pod, "i1", 0))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
	restarts := int32(0)
	for _, rerun := range []func(context.Context, *corev1.Pod) error{
		w.sim.RecreateSandbox, w.sim.RestartAllContainers, w.sim.KillPause,
	} {
		w.must(rerun(w.ctx(), pod))
		w.must(w.sim.AwaitRunning(w.ctx(), pod, "i1"))
		restarts++
		if got := w.get(pod).Status.InitContainerStatuses[0].RestartCount; got != restarts {
			w.Errorf("i1 restarted %d times, want %d", got, restarts)
		}
		w.must(w.sim.Finish(w.ctx(), pod, "i1", 0))
		w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
	}
}

func (w simulation) admission() {
	devices := nodesim.GPUs("admission", 2, 1000)
	devices[0].Capacity.Slots, devices[1].Capacity.Slots = 2, 1
	w.node("admission", func(n *nodesim.Node) { n.Devices = devices })
	gpus := func(name string, n string) *corev1.Pod {
		pod := w.pod(name, corev1.RestartPolicyNever, "a")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
		return pod
	}
	first := gpus("first", "2")
	first.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": "GPU-admission-0,NVIDIA,1,0:;"}
	first = w.bind("admission", first)
	w.must(w.sim.AwaitAdmitted(w.ctx(), first))
	second := w.bind("admission", gpus("second", "2"))
	w.must(w.sim.AwaitAdmitted(w.ctx(), second))
	got := w.get(second)
	if got.Status.Phase != corev1.PodFailed || got.Status.Reason != "UnexpectedAdmissionError" ||
		got.Status.StartTime == nil {
		w.Errorf("second: %+v, want it rejected", got.Status)
	}
	w.must(w.sim.Finish(w.ctx(), first, "a", 0))
	third := w.bind("admission", gpus("third", "3"))
	w.must(w.sim.AwaitRunning(w.ctx(), third, "a"))

	var order []string
	for _, a := range w.sim.Admissions("admission") {
		order = append(order, strings.TrimSpace(fmt.Sprint(a.Pod.Name, " ",
			a.Allocation["hami.io/vgpu-devices-allocated"], a.Rejected)))
	}
	want := []string{"first GPU-admission-0,NVIDIA,1,0:;", "second UnexpectedAdmissionError", "third"}
	if diff := cmp.Diff(want, order); diff != "" {
		w.Errorf("admissions (-want +got):\n%s", diff)
	}
}

func (w simulation) deletion() {
	w.node("deletion", nil)
	pods := w.client.CoreV1().Pods("default")
	pod := w.bind("deletion", w.pod("polite", corev1.RestartPolicyAlways, "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
	w.must(pods.Delete(w.Context(), pod.Name, metav1.DeleteOptions{}))
	w.gone(pod)

	pod = w.bind("deletion", w.pod("forced", corev1.RestartPolicyAlways, "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
	grace := int64(0)
	w.must(pods.Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	again := w.bind("deletion", w.pod("forced", corev1.RestartPolicyAlways, "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), again, "a"))
}

func (w simulation) ownStatus() {
	w.node("own", nil)
	pod := w.bind("own", w.pod("own", corev1.RestartPolicyAlways, "i1", "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "i1"))
	now := metav1.Now().Rfc3339Copy()
	w.must(w.sim.SetStatus(w.ctx(), pod, corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "i1", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now},
		}}},
	}))
	got := w.get(pod)
	if got.Status.Phase != corev1.PodRunning || got.Status.InitContainerStatuses[0].State.Terminated == nil ||
		len(got.Status.ContainerStatuses) != 0 || isTrue(got, corev1.PodReadyToStartContainers) {
		w.Errorf("status %+v is not what was set", got.Status)
	}
	if !isTrue(got, corev1.PodScheduled) {
		w.Error("the scheduler's condition is gone")
	}
	w.must(w.sim.SetStatus(w.ctx(), pod, corev1.PodStatus{Phase: corev1.PodRunning}))
	if got := w.get(pod).Status.StartTime; got != nil {
		w.Errorf("start time %v, want none", got)
	}
	w.must(w.client.CoreV1().Pods("default").Delete(w.Context(), pod.Name, metav1.DeleteOptions{}))
	w.gone(pod)
}

func (w simulation) kubeletHangs() {
	w.node("hangs", nil)
	w.sim.Pause("hangs")
	pod := w.bind("hangs", w.pod("hangs", corev1.RestartPolicyAlways, "a"))
	short, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.sim.AwaitAdmitted(short, pod); err == nil || w.get(pod).Status.StartTime != nil {
		w.Errorf("admitted by a kubelet that hangs: %v", err)
	}
	w.sim.Resume("hangs")
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
}

func (w simulation) nodeChanges() {
	allocatable := func() int64 {
		n, err := w.client.CoreV1().Nodes().Get(w.Context(), "changes", metav1.GetOptions{})
		w.must(err)
		q := n.Status.Allocatable["nvidia.com/gpu"]
		return q.Value()
	}
	devices := nodesim.GPUs("changes", 2, 1000)
	w.node("changes", func(n *nodesim.Node) { n.Devices = devices })
	devices[1].Healthy = false
	w.node("changes", func(n *nodesim.Node) { n.Devices = devices })
	if got := allocatable(); got != 10 {
		w.Errorf("%d allocatable with one of two devices healthy, want 10", got)
	}
	w.must(w.sim.AnnotateNode(w.ctx(), "changes", map[string]string{"hami.io/node-nvidia-register": "garbage"}))
	w.must(w.sim.DeleteNode(w.ctx(), "changes"))
	devices[1].Healthy = true
	w.node("changes", func(n *nodesim.Node) { n.Devices = devices })
	if got := allocatable(); got != 20 {
		w.Errorf("%d allocatable after the node's return, want 20", got)
	}
}

func (w simulation) boundBefore() {
	w.bind("late", w.pod("early", corev1.RestartPolicyAlways, "a"))
	w.node("late", nil)
	w.must(w.sim.AwaitRunning(w.ctx(), w.pod("early", corev1.RestartPolicyAlways, "a"), "a")) // by name
}

func (w simulation) impossibleOrders() {
	w.node("impossible", nil)
	pod := w.bind("impossible", w.pod("impossible", corev1.RestartPolicyNever, "a"))
	short, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		what string
		err  error
		says string
	}{
		{"a container that is not there", w.sim.Finish(w.ctx(), pod, "b", 0), "no container b"},
		{"a pod that is nowhere", w.sim.Finish(short, w.pod("nowhere", "", "a"), "a", 0), "on no simulated node"},
		{"the end", w.sim.Finish(w.ctx(), pod, "a", 0), ""},
		{"a container of a pod that has ended", w.sim.Finish(w.ctx(), pod, "a", 0), "has ended (Succeeded)"},
		{"a rerun of one", w.sim.RecreateSandbox(w.ctx(), pod), "has ended (Succeeded)"},
	} {
		if c.says == "" && c.err == nil {
			continue
		}
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			w.Errorf("%s: error %v, want one with %q", c.what, c.err, c.says)
		}
	}
}

func (w simulation) apiServerRestarts() {
	w.node("restarts", nil)
	pod := w.bind("restarts", w.pod("restarts", corev1.RestartPolicyNever, "i1", "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "i1"))
	w.must(w.cp.APIServer.Kill())
	finished := make(chan error, 1)
	go func() { finished <- w.sim.Finish(w.ctx(), pod, "i1", 0) }()
	w.must(w.cp.APIServer.Start(w.Context()))
	w.must(<-finished)
	w.must(w.sim.Finish(w.ctx(), pod, "a", 0))
	if got := w.get(pod).Status.Phase; got != corev1.PodSucceeded {
		w.Errorf("phase %s, want Succeeded", got)
	}
	// The watch goes on.
	pod = w.bind("restarts", w.pod("after-restart", corev1.RestartPolicyNever, "a"))
	w.must(w.sim.AwaitRunning(w.ctx(), pod, "a"))
}

func (w simulation) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	w.Cleanup(cancel)
	return ctx
}

func (w simulation) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w simulation) node(name string, change func(*nodesim.Node)) {
	w.Helper()
	n := nodesim.Node{Name: name}
	if change != nil {
		change(&n)
	}
	w.must(w.sim.AddNode(w.ctx(), n))
}

// pod is nodesim.PodOf with a name, to be created.
func (w simulation) pod(name string, policy corev1.RestartPolicy, containers ...string) *corev1.Pod {
	pod := nodesim.PodOf(policy, containers...)
	pod.Name, pod.UID = name, ""
	return pod
}

// bind creates a pod and binds it to a node.
func (w simulation) bind(node string, pod *corev1.Pod) *corev1.Pod {
	w.Helper()
	pod, err := w.client.CoreV1().Pods("default").Create(w.Context(), pod, metav1.CreateOptions{})
	w.must(err)
	w.must(w.client.CoreV1().Pods("default").Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
	return pod
}

// gone waits until the API server has a pod no more.
func (w simulation) gone(pod *corev1.Pod) {
	w.Helper()
	await.Until(w, "pod "+pod.Name+" is gone", func() bool {
		_, err := w.client.CoreV1().Pods("default").Get(w.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (w simulation) get(pod *corev1.Pod) *corev1.Pod {
	w.Helper()
	got, err := w.client.CoreV1().Pods(pod.Namespace).Get(w.Context(), pod.Name, metav1.GetOptions{})
	w.must(err)
	return got
}

func isTrue(pod *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
