package stack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestPodFromAdmissionToEnd: a pod with devices goes through the webhook, kube-scheduler, the extender and
// the simulated kubelet.
func TestPodFromAdmissionToEnd(t *testing.T) {
	began := time.Now()
	s := stack.StartT(t, stack.Options{})
	t.Logf("the stack was up after %v", time.Since(began).Round(time.Millisecond))
	ctx := t.Context()
	must(t, s.Sim.AddNode(ctx, nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 1, 24576)}))

	pod := stack.NewPod("default", "train", stack.Init("load", stack.GPU(1, 20480)),
		stack.App("train", stack.GPU(1, 10240)))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod, err := s.Create(ctx, pod)
	must(t, err)
	if pod.Spec.SchedulerName != "phasegpu-scheduler" {
		t.Errorf("schedulerName %q: the webhook did not see the pod", pod.Spec.SchedulerName)
	}
	pod, err = s.AwaitBound(ctx, pod)
	must(t, err)
	record := "GPU-n1-0,NVIDIA,20480,0:;GPU-n1-0,NVIDIA,10240,0:;"
	if got := pod.Annotations["hami.io/vgpu-devices-allocated"]; got != record {
		t.Errorf("allocation %q, want %q", got, record)
	}
	must(t, s.AwaitReserved(ctx, pod, 20480))

	// Another one does not fit beside the init container, and does beside the app.
	second, err := s.Create(ctx, stack.NewPod("default", "second", stack.App("app", stack.GPU(1, 12288))))
	must(t, err)
	message, err := s.AwaitUnschedulable(ctx, second)
	must(t, err)
	if !strings.Contains(message, "memory") {
		t.Errorf("message %q does not say what is short", message)
	}
	must(t, s.Sim.Finish(ctx, pod, "load", 0))
	must(t, s.AwaitReserved(ctx, pod, 10240))
	_, err = s.AwaitBound(ctx, second)
	must(t, err)
	must(t, s.Sim.AwaitRunning(ctx, second, "app"))
	must(t, s.AwaitAudit(ctx))

	must(t, s.Sim.Finish(ctx, pod, "train", 0))
	_, err = s.AwaitPhase(ctx, pod, corev1.PodSucceeded)
	must(t, err)
	must(t, s.AwaitReserved(ctx, pod, 0))

	// The books survive the extender.
	must(t, s.Extender.Kill())
	must(t, s.Extender.Start(ctx))
	l, err := s.Ledger(ctx)
	must(t, err)
	want := map[string]stack.Amount{"n1/GPU-n1-0": {Slots: 1, MemoryMiB: 12288}}
	if diff := cmp.Diff(want, l.Reserved()); diff != "" {
		t.Errorf("books after a restart (-want +got):\n%s", diff)
	}
	must(t, s.AwaitAudit(ctx))
	if a := s.Sim.Admissions("n1"); len(a) != 2 {
		t.Errorf("admissions %v, want two", a)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
