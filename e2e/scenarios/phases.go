package scenarios

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// phases has the scenarios of pods that go through their phases.
func phases() []Scenario {
	return []Scenario{
		{2, "A pod is placed by its peak, not by the sum of its containers", placedByPeak},
		{3, "What a finished init container held goes to a pod that waits for it", handedOn},
		{4, "A failed init container keeps its memory, a pod that has ended keeps none", ends},
		{5, "A sidecar counts beside the app, for good", sidecarAndApp},
		{6, "Where a sidecar is declared decides whether it counts beside an init container", order},
		{7, "A sidecar that crashes again and again moves nothing", crashingSidecar},
		{8, "One of two init containers done: how much is given back is the pod's choice", policies},
	}
}

// trainer is the pod of most scenarios: it loads 20480 MiB once, and trains with 10240.
func trainer(p *Play, name string) *corev1.Pod {
	return p.Pod(name, stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240)))
}

func placedByPeak(p *Play) {
	p.Node("peak", 24576)
	p.Scheduled(p.Submit(trainer(p, "trainer")))
	p.Reserved(20480)
}

func handedOn(p *Play) {
	p.Node("handover", 24576)
	first := p.Submit(trainer(p, "first"))
	p.Scheduled(first)
	p.Running(first, "load")
	p.Reserved(20480)

	second := p.Submit(p.Pod("second", stack.App("serve", stack.GPU(1, 12288))))
	p.Pending(second, "0/1 nodes are available", "Insufficient GPU memory")
	p.StillPending(second)

	p.Finish(first, "load", 0)
	p.Holds(first, 10240)
	p.Scheduled(second) // by itself
	p.Running(second, "serve")
	p.Reserved(22528)
}

func ends(p *Play) {
	p.Node("end", 24576)

	retried := trainer(p, "retried")
	retried.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	retried = p.Submit(retried)
	p.Scheduled(retried)
	p.Running(retried, "load")
	p.Unmoved(retried, func() {
		p.Finish(retried, "load", 1)
		p.Finish(retried, "load", 1)
		p.Running(retried, "load")
	})
	p.Reserved(20480)
	p.Report(retried, "its deadline has passed", func(s *corev1.PodStatus) {
		s.Phase, s.Reason = corev1.PodFailed, "DeadlineExceeded"
	})
	p.Ended(retried, corev1.PodFailed)
	p.Reserved(0)

	once := trainer(p, "once")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	once = p.Submit(once)
	p.Scheduled(once)
	p.Reserved(20480)
	p.Finish(once, "load", 1)
	p.Ended(once, corev1.PodFailed)
	p.Reserved(0)

	brief := trainer(p, "brief")
	brief.Spec.RestartPolicy = corev1.RestartPolicyNever
	brief = p.Submit(brief)
	p.Scheduled(brief)
	p.Running(brief, "load")
	p.Report(brief, "load exits 0, phase Pending", func(s *corev1.PodStatus) {
		s.InitContainerStatuses[0].State = exited(s.InitContainerStatuses[0].State.Running.StartedAt)
	})
	p.Reserved(10240)
	p.Report(brief, "phase Succeeded, without ever being Running", func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		s.ContainerStatuses[0].State = exited(s.InitContainerStatuses[0].State.Terminated.FinishedAt)
	})
	p.Ended(brief, corev1.PodSucceeded)
	p.Reserved(0)
}

// exited is the state of a container that ran to its end in no time.
func exited(at metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at,
		FinishedAt: at}}
}

func sidecarAndApp(p *Play) {
	p.Node("sidecar", 24576)
	first := p.Submit(p.Pod("first", stack.Sidecar("cache", stack.GPU(1, 10240)),
		stack.App("serve", stack.GPU(1, 10240))))
	p.Scheduled(first)
	p.Reserved(20480)
	p.Running(first, "serve")

	second := p.Submit(p.Pod("second", stack.App("serve", stack.GPU(1, 12288))))
	p.Pending(second, "Insufficient GPU memory")
	p.StillPending(second)
	p.Reserved(20480)
}

func order(p *Play) {
	load, cache, train := stack.Init("load", stack.GPU(1, 20480)), stack.Sidecar("cache",
		stack.GPU(1, 2048)), stack.App("train", stack.GPU(1, 10240))

	p.Node("order-a", 24576)
	before := p.Submit(p.Pod("cache-first", cache, load, train))
	p.Scheduled(before)
	p.Reserved(22528)
	p.Node("order-b", 24576)
	after := p.Submit(p.Pod("load-first", load, cache, train))
	p.Scheduled(after)
	p.Reserved(22528, 20480)

	for _, pod := range []*corev1.Pod{before, after} {
		p.Finish(pod, "load", 0)
		p.Running(pod, "train")
		p.Holds(pod, 12288)
	}
	p.Reserved(12288, 12288)
}

func crashingSidecar(p *Play) {
	p.Node("crash", 24576)
	flap := func(pod *corev1.Pod, sidecar string) {
		for _, exit := range []int32{0, 1, 1, 0} {
			p.Finish(pod, sidecar, exit)
		}
		p.Running(pod, sidecar)
	}

	// While the init container runs, and when the app does.
	trainer := p.Submit(p.Pod("trainer",
		stack.Sidecar("cache", stack.GPU(1, 2048)), stack.Init("load", stack.GPU(1, 20480)), stack.App("train",
			stack.GPU(1, 10240))))
	p.Scheduled(trainer)
	p.Running(trainer, "load")
	p.Reserved(22528)
	p.Unmoved(trainer, func() { flap(trainer, "cache") })
	p.Finish(trainer, "load", 0)
	p.Running(trainer, "train")
	p.Reserved(12288)
	p.Unmoved(trainer, func() { flap(trainer, "cache") })
	p.Delete(trainer)
	p.Reserved(0)

	// Sidecars alone: one state, from before the first starts.
	p.Cluster.Sim.Pause("crash")
	server := p.Submit(p.Pod("server",
		stack.Sidecar("cache", stack.GPU(1, 2048)), stack.Sidecar("proxy", stack.GPU(1, 8192)), stack.App("serve",
			stack.GPU(1, 10240))))
	p.Scheduled(server)
	p.Reserved(20480)
	p.Unmoved(server, func() {
		p.Cluster.Sim.Resume("crash")
		p.Running(server, "serve")
		flap(server, "proxy")
	})
	p.Reserved(20480)
}

func policies(p *Play) {
	p.Node("policies", 24576)
	releases := []string{"per-init", "all-inits", "hold"}
	var pods []*corev1.Pod
	for _, release := range releases {
		pod := p.Pod(release, stack.Init("first", stack.GPU(1, 1024)), stack.Init("second", stack.GPU(1, 512)),
			stack.App("app", stack.GPU(1, 256)))
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		pod = p.Submit(stack.Annotate(pod, wire.ReleaseAnnotation, release))
		p.Scheduled(pod)
		pods = append(pods, pod)
	}
	p.Reserved(1024 + 1024 + 1024)

	for i, reserved := range []int64{512, 1024, 1024} {
		pod := pods[i]
		p.Finish(pod, "first", 0)
		p.Running(pod, "second")
		p.Holds(pod, reserved)
		p.Unmoved(pod, func() {
			p.Finish(pod, "second", 1)
			p.Finish(pod, "second", 2)
			p.Running(pod, "second")
		})
	}
	p.Reserved(512 + 1024 + 1024)

	for i, reserved := range []int64{256, 256, 1024} {
		p.Finish(pods[i], "second", 0)
		p.Running(pods[i], "app")
		p.Holds(pods[i], reserved)
	}
	p.Reserved(256 + 256 + 1024)
}
