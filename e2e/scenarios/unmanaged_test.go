package scenarios_test

import (
	"context"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// unmanaged: no pod with devices gets past the books.
func unmanaged(t *testing.T, p *scenarios.Play) {
	train := func(name string) *corev1.Pod { return p.Pod(name, stack.App("train", stack.GPU(1, 1000))) }
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod)
		words  []string
	}{
		{"a node of its own", func(pod *corev1.Pod) { pod.Spec.NodeName = "good" },
			[]string{"spec.nodeName", `"good"`, "phasegpu-scheduler"}},
		{"another scheduler", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "volcano" },
			[]string{"spec.schedulerName", `"volcano"`, "phasegpu-scheduler"}},
		{"privileges", func(pod *corev1.Pod) {
			yes := true
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}, []string{`container "train"`, "privileged"}},
		{"a mirror pod that no kubelet made", func(pod *corev1.Pod) {
			pod.Spec.NodeName = "good"
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, []string{"spec.nodeName"}},
	} {
		pod := train("sly")
		c.change(pod)
		_, err := p.Cluster.Create(p.Context(), pod)
		says(t, c.what, err, append(c.words, "bad-unmanaged/sly")...)
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: want Forbidden, got %v", c.what, err)
		}
	}

	inits := p.Pod("inits", stack.Init("load", stack.GPU(1, 1000)), stack.App("plain"))
	inits.Spec.SchedulerName = "default-scheduler"
	inits = p.Submit(inits)
	if got := inits.Spec.SchedulerName; got != "phasegpu-scheduler" {
		t.Errorf("the scheduler of a pod with a device in an init container alone is %q", got)
	}
	inits = p.Scheduled(inits)
	if got, want := inits.Annotations["hami.io/vgpu-devices-allocated"], "GPU-good-0,NVIDIA,1000,0:;;"; got != want {
		t.Errorf("record %q, want %q", got, want)
	}
	p.Holds(inits, 1000)
	p.Finish(inits, "load", 0)
	p.Running(inits, "plain")
	p.Holds(inits, 0)

	added := p.Submit(p.Pod("added", stack.App("train", stack.Limit{"nvidia.com/gpumem": "1000"})))
	if n := added.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; n.Value() != 1 {
		t.Errorf("a container that asks for memory alone has %s devices", n.String())
	}
	p.Scheduled(added)

	// A dry run does nothing, whatever is asked.
	p.Unmoved(added, func() {
		must(t, p.Cluster.DryRun(p.Context(), train("dry")))
		pods := p.Cluster.Client.CoreV1().Pods(p.Namespace)
		if _, err := pods.Get(p.Context(), "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a dry run left a pod: %v", err)
		}
	})

	// Pods without devices are left alone.
	for name, scheduler := range map[string]string{"plain": "", "foreign": "volcano"} {
		plain := p.Pod(name, stack.App("web"))
		plain.Spec.SchedulerName = scheduler
		created := p.Submit(plain)
		if got := created.Spec.SchedulerName; got == "phasegpu-scheduler" {
			t.Errorf("a pod without devices was given to phasegpu")
		}
	}
}

// webhookDown: pods with devices are refused, and no others.
func webhookDown(t *testing.T, p *scenarios.Play) {
	train := p.Pod("train", stack.App("train", stack.GPU(1, 1000)))
	forged := stack.Annotate(p.Pod("forged", stack.App("web")), "hami.io/vgpu-node", "good")
	both := func() {
		t.Helper()
		for _, pod := range []*corev1.Pod{train, forged} {
			says(t, pod.Name, p.Cluster.DryRun(p.Context(), pod), "failed calling webhook", "pods.phasegpu.io")
		}
		must(t, p.Cluster.DryRun(p.Context(), p.Pod("plain", stack.App("web"))))
	}
	must(t, p.Cluster.Webhook.Kill())
	both()
	must(t, p.Cluster.Webhook.Start(p.Context()))
	must(t, p.Cluster.DryRun(p.Context(), train))
	must(t, p.Cluster.Webhook.Signal(syscall.SIGSTOP))
	both()
	must(t, p.Cluster.Webhook.Signal(syscall.SIGCONT))
	must(t, stack.Eventually(p.Context(), "pods with devices are admitted again", func(ctx context.Context) error {
		return p.Cluster.DryRun(ctx, train)
	}))
}
