package scenarios

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// accounts has the scenarios about what devices, namespaces and kubelet count.
func accounts() []Scenario {
	return []Scenario{
		{10, "Each device is charged its own maximum, the namespace the largest phase in total", perDevice},
		{11, "A quota's limits. keys follow the phases, its requests. keys the API server's own sum", quotas},
		{14, "A count that kubelet does not give back is not given away", countForLife},
	}
}

func perDevice(p *Play) {
	p.Quota(map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "40000", "limits.amd.com/gpumem": "24000"})
	splitPod(p)
	severalDevices(p)
	emptyPositions(p)
	twoFamilies(p)
	exclusiveForAPhase(p)
}

// splitPod: the init container fits only on the larger card; the app, which is placed first, goes to the other. Both
// cards are held, and yet no phase uses more than the larger of the two amounts.
func splitPod(p *Play) {
	p.Node("split", 24576, 32768)
	pod := p.Submit(p.Pod("split", stack.Init("convert", stack.GPU(1, 30000)), stack.App("serve", stack.GPU(1, 20000))))
	p.recorded(p.Scheduled(pod), "GPU-split-1,NVIDIA,30000,0:;GPU-split-0,NVIDIA,20000,0:;")
	p.Reserved(20000, 30000)
	p.charged("NVIDIA", stack.Amount{Slots: 1, MemoryMiB: 30000})

	// The sum over the devices would leave no room for this one.
	small := p.Submit(p.Pod("small", stack.App("serve", stack.GPU(1, 4000))))
	p.recorded(p.Scheduled(small), "GPU-split-0,NVIDIA,4000,0:;")
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 34000})
	p.Running(pod, "convert")
	p.deniedSoon(p.Pod("large", stack.App("serve", stack.GPU(1, 6001))), "limits.nvidia.com/gpumem", "34000", "6001",
		"40000")

	p.Finish(pod, "convert", 0)
	p.Reserved(24000, 0)
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 24000})
	p.Delete(small)
	p.Delete(pod)
}

// severalDevices: an amount is per device.
func severalDevices(p *Play) {
	pod := p.Submit(p.Pod("two-cards", stack.App("train", stack.GPU(2, 2048))))
	p.Scheduled(pod)
	p.Reserved(2048, 2048)
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 4096})
	p.deniedSoon(p.Pod("too-much", stack.App("train", stack.GPU(2, 17953))), `app container "train" 2 × 17953 MiB`,
		"35906", "4096")
	p.Delete(pod)
}

// emptyPositions: a container without devices does not shift the others in the record.
func emptyPositions(p *Play) {
	p.deniedSoon(p.Pod("both", stack.Init("plain"), stack.App("a", stack.GPU(1, 24000)),
		stack.App("b", stack.GPU(1, 24000))),
		"peak of 48000 MiB", "steady state")
	pod := p.Submit(p.Pod("positions", stack.Init("plain"), stack.App("a", stack.GPU(1, 21000)), stack.App("none"),
		stack.App("b", stack.GPU(1, 19000))))
	p.recorded(p.Scheduled(pod), ";GPU-split-0,NVIDIA,21000,0:;;GPU-split-1,NVIDIA,19000,0:;")
	p.Reserved(21000, 19000)
	p.Finish(pod, "plain", 0)
	p.Running(pod, "b")
	p.Must(p.Cluster.AwaitSeen(p.Context(), pod))
	p.Reserved(21000, 19000)
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 40000})
	p.Delete(pod)
}

// twoFamilies: totals are kept for each family.
func twoFamilies(p *Play) {
	amd := device.Device{
		UUID: "AMD-mixed-0", Family: "AMD", Model: "MI-Simulated", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 32768, Cores: device.WholeCores},
	}
	p.AddNode(nodesim.Node{Name: "mixed", Devices: append(nodesim.GPUs("mixed", 1, 24576), amd)})
	onAMD := func(memoryMiB int64) stack.Limit {
		return stack.Limit{"amd.com/gpu": "1", "amd.com/gpumem": fmt.Sprint(memoryMiB)}
	}
	pod := p.Submit(p.Pod("both-families",
		stack.Init("convert", stack.GPU(1, 8000)), stack.Sidecar("cache", onAMD(1000)),
		stack.Init("tune", onAMD(20000)), stack.App("serve", stack.GPU(1, 4000)), stack.App("rank", onAMD(16000))))
	bound := p.Scheduled(pod)
	p.recorded(bound, "GPU-mixed-0,NVIDIA,8000,0:;;;GPU-mixed-0,NVIDIA,4000,0:;;")
	want := ";AMD-mixed-0,AMD,1000,0:;AMD-mixed-0,AMD,20000,0:;;AMD-mixed-0,AMD,16000,0:;"
	if got := bound.Annotations["hami.io/amd-devices-allocated"]; got != want {
		p.Fatalf("the record for AMD is %q, want %q", got, want)
	}
	books := func(nvidia, amd int64) {
		p.Helper()
		p.Reserved(0, 0, nvidia, amd)
		p.charged("NVIDIA", stack.Amount{Slots: 1, MemoryMiB: nvidia})
		p.charged("AMD", stack.Amount{Slots: 2, MemoryMiB: amd})
	}
	books(8000, 21000)
	p.deniedSoon(p.Pod("more", stack.App("rank", onAMD(3001))), "limits.amd.com/gpumem", "21000", "24000")
	p.Finish(pod, "convert", 0)
	books(4000, 21000)
	p.Finish(pod, "tune", 0)
	books(4000, 17000)
	p.Delete(pod)
	p.Reserved(0, 0, 0, 0)
}

// exclusiveForAPhase: a container that asks for all of a card's compute has the card alone while its phase remains.
func exclusiveForAPhase(p *Play) {
	p.AddNode(nodesim.Node{Name: "compute", Devices: nodesim.GPUs("compute", 1, 24576),
		Labels: map[string]string{"story": "compute"}})
	there := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeSelector = map[string]string{"story": "compute"}
		return pod
	}
	pod := p.Submit(there(p.Pod("whole", stack.Init("tune", stack.GPU(1, 1000), stack.Cores(100)),
		stack.App("serve", stack.GPU(1, 1000), stack.Cores(30)))))
	p.Scheduled(pod)
	p.Running(pod, "tune")
	second := p.Submit(there(p.Pod("part", stack.App("serve", stack.GPU(1, 1000), stack.Cores(60)))))
	p.Pending(second, "GPUs in exclusive use")
	p.StillPending(second)
	p.Finish(pod, "tune", 0)
	p.Scheduled(second)
	third := p.Submit(there(p.Pod("more", stack.App("serve", stack.GPU(1, 1000), stack.Cores(20)))))
	p.Pending(third, "Insufficient GPU cores")
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 2000, Cores: 90})
}

// recorded compares a bound pod's NVIDIA record.
func (p *Play) recorded(pod *corev1.Pod, want string) {
	p.Helper()
	if got := pod.Annotations["hami.io/vgpu-devices-allocated"]; got != want {
		p.Fatalf("pod %s has the record %q, want %q", pod.Name, got, want)
	}
}

// charged waits until the namespace is charged so much of a family: devices, MiB × devices and percent ×
// devices.
func (p *Play) charged(family string, want stack.Amount) {
	p.Helper()
	p.AwaitBooks(fmt.Sprintf("namespace %s is charged %+v of %s", p.Namespace, want, family),
		func(l *stack.Ledger) error {
			if got := l.Used()[p.Namespace+"/"+family]; got != want {
				return fmt.Errorf("it is charged %+v", got)
			}
			return nil
		})
	p.Logf("the namespace is charged %d MiB of %s", want.MemoryMiB, family)
}

// deniedSoon is Denied once the webhook, which has books of its own, has seen what the extender has.
func (p *Play) deniedSoon(pod *corev1.Pod, words ...string) {
	p.Helper()
	p.Must(stack.Eventually(p.Context(), "pod "+pod.Name+" is denied", func(ctx context.Context) error {
		if err := p.Cluster.DryRun(ctx, pod); err != nil {
			return stack.Lacks(err.Error(), words...)
		}
		return errors.New("it would be admitted")
	}))
	p.Denied(pod, words...)
}

// countForLife: kubelet's device manager keeps the ids of the init container for the pod until it ends, although the
// books have released the memory.
func countForLife(p *Play) {
	gpus := nodesim.GPUs("kept", 4, 24576)
	for i := range gpus {
		gpus[i].Capacity.Slots = 1
	}
	p.AddNode(nodesim.Node{Name: "kept", Devices: gpus})
	pod := p.Submit(p.Pod("wide", stack.Init("load", stack.GPU(3, 20480)), stack.App("serve", stack.GPU(1, 10240))))
	p.Scheduled(pod)
	p.Reserved(20480, 20480, 20480, 0)
	p.Finish(pod, "load", 0)
	p.Running(pod, "serve")
	p.Reserved(10240, 0, 0, 0)

	two := p.Submit(p.Pod("two", stack.App("serve", stack.GPU(2, 1024))))
	p.Pending(two, "Insufficient nvidia.com/gpu")
	one := p.Submit(p.Pod("one", stack.App("serve", stack.GPU(1, 1024))))
	p.Scheduled(one)
	p.Running(one, "serve")
	for _, a := range p.Cluster.Sim.Admissions("kept") {
		if a.Rejected != "" {
			p.Fatalf("kubelet rejected pod %s: %s", a.Pod, a.Rejected)
		}
	}
	p.Pending(two, "Insufficient nvidia.com/gpu")

	p.Delete(pod)
	p.Scheduled(two)
	p.Running(two, "serve")
}
