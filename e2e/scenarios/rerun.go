package scenarios

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// reruns has the scenario of init containers that run again.
func reruns() []Scenario {
	return []Scenario{
		{9, "Init containers that run again are charged again, from the first sign on", rerun},
	}
}

func rerun(p *Play) {
	p.Node("rerun", 24576)
	recordedReruns(p)
	for _, again := range []struct {
		what string
		do   func(*nodesim.Simulator, context.Context, *corev1.Pod) error
	}{
		{"its sandbox is recreated", (*nodesim.Simulator).RecreateSandbox},
		{"its pause process is killed", (*nodesim.Simulator).KillPause},
		{"all its containers are restarted in place", (*nodesim.Simulator).RestartAllContainers},
	} {
		liveRerun(p, again.what, again.do)
	}
	ordinaryRestarts(p)
	memoryGone(p)
}

// What the pods of this scenario need: the second init container most.
const (
	atPeak   = 20100 // with the sidecar
	atSteady = 5100
)

// rerunner has the shape of the pod on which a real kubelet was observed.
func rerunner(p *Play, name string) *corev1.Pod {
	return p.Pod(name,
		stack.Init("i0", stack.GPU(1, 8000)), stack.Sidecar("s", stack.GPU(1, 100)),
		stack.Init("i1", stack.GPU(1, 20000)), stack.App("a", stack.GPU(1, 5000)))
}

// waiter fits beside the steady state and not beside the peak.
func waiter(p *Play, name string) *corev1.Pod {
	return p.Pod(name, stack.App("serve", stack.GPU(1, 12288)))
}

// recordedReruns plays what a real kubelet reported, report by report. A pod waits for the memory whenever
// it is taken, and gets it when it is not.
func recordedReruns(p *Play) {
	snapshots, err := stack.Reruns()
	p.Must(err)
	if len(snapshots) == 0 {
		p.Fatalf("there are no recorded reruns")
	}
	var story string
	var pod, waiting *corev1.Pod
	end := func() {
		p.Delete(pod)
		if waiting != nil {
			p.Scheduled(waiting)
			p.Delete(waiting)
			waiting = nil
		}
	}
	for i, s := range snapshots {
		if name := strings.TrimRight(s.Name, "-0123456789"); name != story {
			if pod != nil {
				end()
			}
			story = name
			pod = p.Submit(rerunner(p, fmt.Sprintf("recorded-%d", i)))
			p.Scheduled(pod)
		}
		p.Must(p.Cluster.Sim.SetStatus(p.Context(), pod, s.Pod.Status))
		p.Must(p.Cluster.AwaitSeen(p.Context(), pod))
		reserved := s.Want.Reserved.Total.MemoryMiB
		p.Logf("%s: kubelet reports %s", s.Name, stack.Describe(&s.Pod))
		p.Holds(pod, reserved)
		switch {
		case reserved == atPeak && waiting == nil:
			waiting = p.Submit(waiter(p, fmt.Sprintf("waiter-%d", i)))
			p.Pending(waiting, "Insufficient GPU memory")
		case reserved == atPeak:
			p.StillPending(waiting)
		case reserved != atSteady:
			p.Fatalf("%s: %d MiB are right, which this scenario does not know", s.Name, reserved)
		case waiting != nil:
			p.Scheduled(waiting)
			p.Delete(waiting)
			waiting = nil
		}
	}
	end()
	p.Reserved(0)
}

// liveRerun has the simulated kubelet run a pod's init containers again.
func liveRerun(p *Play, what string, again func(*nodesim.Simulator, context.Context, *corev1.Pod) error) {
	pod := steady(p, "live")
	p.Event(pod, "GPUPlaced", "on node rerun: GPU GPU-rerun-0 20100 MiB at the peak, 5100 MiB in steady state")
	p.Event(pod, "GPUReleased", "after init container i1: GPU GPU-rerun-0 5100 MiB, was 20100 MiB")
	p.Must(again(p.Cluster.Sim, p.Context(), pod))
	p.Must(p.Cluster.AwaitSeen(p.Context(), pod))
	p.Logf("%s: %s", pod.Name, what)
	p.Holds(pod, atPeak)
	p.Event(pod, "GPURaised", "its init containers run again: GPU GPU-rerun-0 20100 MiB, was 5100 MiB")
	waiting := p.Submit(waiter(p, "waiter"))
	p.Pending(waiting, "Insufficient GPU memory")

	p.Running(pod, "i0")
	p.StillPending(waiting)
	p.Finish(pod, "i0", 0)
	p.Running(pod, "i1")
	p.Must(p.Cluster.AwaitSeen(p.Context(), pod))
	p.StillPending(waiting)
	p.Reserved(atPeak)
	p.Finish(pod, "i1", 0)
	p.Holds(pod, atSteady)
	p.Scheduled(waiting)
	p.Running(pod, "a")
	p.Reserved(atSteady + 12288)
	p.Delete(waiting)
	p.Delete(pod)
}

// steady brings a pod to its steady state.
func steady(p *Play, name string) *corev1.Pod {
	pod := p.Submit(rerunner(p, name))
	p.Scheduled(pod)
	p.Finish(pod, "i0", 0)
	p.Finish(pod, "i1", 0)
	p.Running(pod, "a")
	p.Holds(pod, atSteady)
	return pod
}

// ordinaryRestarts: no init container runs again, so nothing is charged again.
func ordinaryRestarts(p *Play) {
	pod := steady(p, "ordinary")
	p.Unmoved(pod, func() {
		for _, container := range []string{"a", "s"} {
			for _, exit := range []int32{1, 0} {
				p.Finish(pod, container, exit)
				p.Running(pod, container)
			}
		}
	})
	p.Reserved(atSteady)
	p.Delete(pod)
}

// memoryGone: another pod has what the init containers held when they run again.
func memoryGone(p *Play) {
	first := steady(p, "first")
	second := p.Submit(p.Pod("second", stack.App("serve", stack.GPU(1, 15000))))
	p.Scheduled(second)
	p.Running(second, "serve")
	p.Reserved(atSteady + 15000)

	p.Must(p.Cluster.Sim.RecreateSandbox(p.Context(), first))
	p.Logf("%s: its sandbox is recreated, and its memory has gone to others", first.Name)
	p.Reserved(atPeak + 15000)
	// 10524 MiB
	p.Metric(`phasegpu_device_memory_overcommitted_bytes{node="rerun",uuid="GPU-rerun-0"}`, "1.1035213824e+10")
	p.Event(first, "GPUOvercommitted", "GPU-rerun-0", "35100")
	third := p.Submit(p.Pod("third", stack.App("serve", stack.GPU(1, 1000))))
	p.Pending(third, "Insufficient GPU memory")

	p.Finish(first, "i0", 0)
	p.StillPending(third)
	p.Reserved(atPeak + 15000)
	p.Delete(second)
	p.Scheduled(third)
	p.Reserved(atPeak + 1000)
	p.Metric(`phasegpu_device_memory_overcommitted_bytes{node="rerun",uuid="GPU-rerun-0"}`, "")
	p.Finish(first, "i1", 0)
	p.Reserved(atSteady + 1000)
}
