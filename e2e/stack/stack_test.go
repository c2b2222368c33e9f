package stack_test

import (
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
	if err := s.Sim.AddNode(ctx, nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 1, 24576)}); err != nil {
		t.Fatal(err)
	}

	d := s.Drive(t, "default")
	pod := d.Pod("train", stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240)))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod = d.Submit(pod)
	if pod.Spec.SchedulerName != "phasegpu-scheduler" {
		t.Errorf("schedulerName %q: the webhook did not see the pod", pod.Spec.SchedulerName)
	}
	record := "GPU-n1-0,NVIDIA,20480,0:;GPU-n1-0,NVIDIA,10240,0:;"
	if got := d.Scheduled(pod).Annotations["hami.io/vgpu-devices-allocated"]; got != record {
		t.Errorf("allocation %q, want %q", got, record)
	}
	d.Holds(pod, 20480)

	// Another one does not fit beside the init container, and does beside the app.
	second := d.Submit(d.Pod("second", stack.App("app", stack.GPU(1, 12288))))
	d.Pending(second, "memory")
	d.Finish(pod, "load", 0)
	d.Holds(pod, 10240)
	d.Scheduled(second)
	d.Running(second, "app")
	d.Must(s.AwaitAudit(ctx))

	d.Finish(pod, "train", 0)
	d.Ended(pod, corev1.PodSucceeded)
	d.Holds(pod, 0)

	// The books survive the extender.
	d.Must(s.Extender.Kill())
	d.Must(s.Extender.Start(ctx))
	want := map[string]stack.Amount{"n1/GPU-n1-0": {Slots: 1, MemoryMiB: 12288}}
	if diff := cmp.Diff(want, d.Books().Reserved()); diff != "" {
		t.Errorf("books after a restart (-want +got):\n%s", diff)
	}
	d.Must(s.AwaitAudit(ctx))
	if a := s.Sim.Admissions("n1"); len(a) != 2 {
		t.Errorf("admissions %v, want two", a)
	}
}
