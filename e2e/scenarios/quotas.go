package scenarios

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

func quotas(p *Play) {
	p.Node("quotas", 24576, 24576)
	bothCharges(p)
	severalQuotas(p)
	admittedAtOnce(p)
}

// bothCharges: the API server charges requests. keys by raw quantities for as long as a pod lives;
// what we charge shrinks with the phases, so that only under limits. keys does the next pod come in.
func bothCharges(p *Play) {
	p.Quota(map[corev1.ResourceName]string{
		"limits.nvidia.com/gpumem": "24576", "requests.nvidia.com/gpumem": "30000", "requests.nvidia.com/gpu": "8",
	})
	first := p.Submit(p.Pod("first", stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(2, 5120))))
	p.Scheduled(first)
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 20480})
	p.counted(first) // 20480 and 2: per device, not times devices

	// It has no MiB before it has a card, so it is admitted, and held to the quota when it is placed.
	half := p.Submit(p.Pod("half", stack.App("serve", stack.Limit{"nvidia.com/gpumem-percentage": "50"})))
	p.Pending(half, "limits.nvidia.com/gpumem", "20480", "12288", "24576")
	p.StillPending(half)
	p.counted(first, half)

	p.Finish(first, "load", 0)
	p.Running(first, "train")
	p.Scheduled(half) // by itself
	p.charged("NVIDIA", stack.Amount{Slots: 3, MemoryMiB: 10240 + 12288})
	p.Must(p.Cluster.Recount(p.Context(), p.Namespace, "team"))
	p.counted(first, half)
	p.Delete(half)
	p.charged("NVIDIA", stack.Amount{Slots: 2, MemoryMiB: 10240})
	p.counted(first)

	// Our charge has room for it, and the API server's has not.
	second := p.Pod("second", stack.App("serve", stack.GPU(1, 10000)))
	p.deniedSoon(second, "exceeded quota: team", "requests.nvidia.com/gpumem")
	p.limit(map[string]any{"requests.nvidia.com/gpumem": nil})
	second = p.Submit(second)
	p.Scheduled(second)
	p.charged("NVIDIA", stack.Amount{Slots: 3, MemoryMiB: 20240})
	p.Delete(second)
}

// severalQuotas: a limit of 0 blocks, an absent one does not limit, the tightest of several rules, and
// one that is deleted leaves the others in force. "first" is there and charged 10240.
func severalQuotas(p *Play) {
	p.addQuota("no-cores", map[corev1.ResourceName]string{"limits.nvidia.com/gpucores": "0"})
	p.deniedSoon(p.Pod("cores", stack.App("serve", stack.GPU(1, 1000), stack.Cores(1))), `ResourceQuota "no-cores"`,
		"limits.nvidia.com/gpucores", "allows 0%")
	without := p.Submit(p.Pod("without", stack.App("serve", stack.GPU(1, 1000))))
	p.Scheduled(without)
	p.dropQuota("no-cores")
	p.admittedSoon(p.Pod("cores", stack.App("serve", stack.GPU(1, 1000), stack.Cores(1))))

	p.addQuota("tight", map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "12000"})
	next := p.Pod("next", stack.App("serve", stack.GPU(1, 1000)))
	p.deniedSoon(next, `ResourceQuota "tight"`, "allows 12000 MiB", "11240")
	p.dropQuota("tight")
	p.admittedSoon(next)
	p.deniedSoon(p.Pod("large", stack.App("serve", stack.GPU(1, 13337))), `ResourceQuota "team"`, "allows 24576 MiB",
		"11240")

	p.addQuota("nothing", map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "0"})
	p.deniedSoon(p.Pod("card", stack.App("serve", stack.Limit{"nvidia.com/gpu": "1"})), `ResourceQuota "nothing"`,
		"a whole card's memory")
	p.dropQuota("nothing")
	p.Delete(without)
}

// admittedAtOnce: two pods are admitted when neither is charged yet, and only one is bound.
func admittedAtOnce(p *Play) {
	var pods []*corev1.Pod
	for _, name := range []string{"twin-a", "twin-b"} {
		pod := p.Pod(name, stack.App("serve", stack.GPU(1, 8000)))
		pod.Spec.NodeSelector = map[string]string{"story": "late"}
		pod = p.Submit(pod)
		p.Pending(pod, "didn't match Pod's node affinity/selector")
		pods = append(pods, pod)
	}
	p.AddNode(nodesim.Node{Name: "late", Devices: nodesim.GPUs("late", 1, 24576),
		Labels: map[string]string{"story": "late"}})
	var bound, other *corev1.Pod
	p.Must(stack.Eventually(p.Context(), "one of two pods is bound", func(ctx context.Context) error {
		for i := range pods {
			now, err := p.Cluster.Pod(ctx, pods[i])
			if err != nil {
				return err
			}
			if now.Spec.NodeName != "" {
				bound, other = now, pods[1-i]
				return nil
			}
		}
		return fmt.Errorf("none is")
	}))
	p.Scheduled(bound)
	p.Pending(other, "limits.nvidia.com/gpumem", "18240", "8000", "24576")
	p.StillPending(other)
	p.charged("NVIDIA", stack.Amount{Slots: 3, MemoryMiB: 18240})
	p.Delete(bound)
	p.Scheduled(other)
	p.charged("NVIDIA", stack.Amount{Slots: 3, MemoryMiB: 18240})
}

// counted waits until the API server charges the "team" quota's requests. keys with the sum of Kubernetes' own fold
// over the pods' raw quantities.
func (p *Play) counted(pods ...*corev1.Pod) {
	p.Helper()
	used, err := p.Cluster.AwaitCounted(p.Context(), p.Namespace, "team", pods...)
	p.Must(err)
	p.Logf("the API server charges %s", limits(plain(used)))
}

func plain(list corev1.ResourceList) map[string]int64 {
	numbers := map[string]int64{}
	for name, amount := range list {
		numbers[string(name)] = amount.Value()
	}
	return numbers
}

// limit changes the "team" quota, and waits until that is obeyed.
func (p *Play) limit(hard map[string]any) {
	p.Helper()
	p.Must(p.Cluster.ChangeQuota(p.Context(), p.Namespace, "team", hard))
	p.Logf("ResourceQuota \"team\" is changed: %s", limits(hard))
}

func (p *Play) dropQuota(name string) {
	p.Helper()
	p.Must(p.Cluster.Client.CoreV1().ResourceQuotas(p.Namespace).Delete(p.Context(), name, metav1.DeleteOptions{}))
	p.Logf("ResourceQuota %q is deleted", name)
}

// admittedSoon waits until admission would let a pod in.
func (p *Play) admittedSoon(pod *corev1.Pod) {
	p.Helper()
	p.Must(stack.Eventually(p.Context(), "pod "+pod.Name+" would be admitted", func(ctx context.Context) error {
		return p.Cluster.DryRun(ctx, pod)
	}))
	p.Logf("%s would be admitted", describe(pod))
}
