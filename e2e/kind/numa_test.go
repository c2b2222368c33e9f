//go:build kind

package kind_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Worker3's kubelet sees two NUMA nodes, keeps the CPUs of node 0 for itself, and lets a container with whole
// CPUs of its own have only what is on one NUMA node: on node 1, where CardE is. phasegpu's scheduler knows
// nothing of CPUs and takes the card with the lower index, CardD. Only one such pod can run at a time.

// aligned is a pod for Worker3. Containers get the CPU named for them, for themselves if it is a whole one.
func aligned(s *kind.Story, name string, alignment wire.Alignment, cpu map[string]string,
	containers ...stack.Container) *corev1.Pod {
	pod := onWorker3(s.Pod(name, containers...))
	for i := range stack.NumContainers(pod) {
		c := kube.Container(&pod.Spec, i)
		for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu[c.Name],
			corev1.ResourceMemory: "32Mi"} {
			c.Resources.Limits[name] = resource.MustParse(quantity)
			c.Resources.Requests[name] = resource.MustParse(quantity) // QoS class Guaranteed
		}
	}
	return stack.Annotate(pod, wire.NUMAAlignment, alignment.String())
}

// onWorker3 lets a pod onto Worker3 and nowhere else.
func onWorker3(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: kind.Worker3}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "phasegpu.io/numa", Operator: corev1.TolerationOpExists}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return pod
}

// sees expects that each container runs, or has run, with its card and limits as recorded now, all on one card.
func sees(s *kind.Story, pod *corev1.Pod, card string, containers ...string) {
	s.Helper()
	pod = s.Get(pod)
	cards := cardsOf(s, pod)
	for _, container := range containers {
		if cards[container] != card {
			s.Fatalf("container %s is recorded on %s, want %s: %v", container, cards[container], card, cards)
		}
	}
	s.Must(s.Cluster.CheckRecord(s.Context(), pod, containers...))
	s.Logf("%s: %s on %s, as recorded and as they see it", pod.Name, strings.Join(containers, ", "), card)
}

// A container with a CPU of its own gets the card beside that CPU, whichever the scheduler picked, and the first
// card is free for the next pod.
func TestContainerFollowsKubelet(t *testing.T) {
	for _, alignment := range []wire.Alignment{wire.BestEffort, wire.Strict} {
		t.Run(alignment.String(), func(t *testing.T) {
			s := kind.Begin(t)
			pod := s.Submit(aligned(s, "train", alignment, map[string]string{"train": "1"},
				stack.App("train", stack.GPU(1, 30000))))
			s.Running(pod, "train")
			s.Event(pod, "Refitted", kind.CardE)
			sees(s, pod, kind.CardE, "train")
			s.Reserved(kind.CardE, 30000)
			s.Reserved(kind.CardD, 0)
			s.Charged(30000)

			next := s.Submit(kind.Pin(onWorker3(s.Pod("next", stack.App("serve", stack.GPU(1, 40960)))), kind.CardD))
			s.Running(next, "serve")
			sees(s, next, kind.CardD, "serve")
		})
	}
}

// Init container, sidecar and app of one pod: kubelet asks for the first and the last, and hands the init
// container's id to the sidecar without asking.
func TestPodFollowsKubelet(t *testing.T) {
	s := kind.Begin(t)
	pod := s.Submit(aligned(s, "trio", wire.Strict, map[string]string{"load": "1", "cache": "200m", "train": "1"},
		stack.Init("load", stack.GPU(1, 30000)),
		stack.Sidecar("cache", stack.GPU(1, 5000)),
		stack.App("train", stack.GPU(1, 20000))))
	s.Running(pod, "load")
	s.Reserved(kind.CardE, 30000)
	s.Reserved(kind.CardD, 0)
	s.Charged(30000)
	s.Finish(pod, "load", 0)
	s.Running(pod, "train")
	sees(s, pod, kind.CardE, "load", "cache", "train")
	s.Reserved(kind.CardE, 25000)
	s.Charged(25000)
}

// What another pod holds beside the CPU leaves no room there: a strict pod fails and says why, a best-effort pod
// runs where it was placed.
func TestContainerCannotFollowKubelet(t *testing.T) {
	s := kind.Begin(t)
	holder := s.Submit(kind.Pin(onWorker3(s.Pod("holder", stack.App("serve", stack.GPU(1, 30000)))), kind.CardE))
	s.Running(holder, "serve")
	cpu := map[string]string{"train": "1"}

	strict := s.Submit(aligned(s, "strict", wire.Strict, cpu, stack.App("train", stack.GPU(1, 20000))))
	s.Ended(strict, corev1.PodFailed)
	s.Event(strict, "RefitRefused", kind.CardE)
	s.Event(strict, "UnexpectedAdmissionError", "NoMemory")
	s.Reserved(kind.CardD, 0)
	s.Reserved(kind.CardE, 30000)
	s.Charged(30000)

	relaxed := s.Submit(aligned(s, "relaxed", wire.BestEffort, cpu, stack.App("train", stack.GPU(1, 20000))))
	s.Running(relaxed, "train")
	s.Event(relaxed, "RefitRefused", kind.CardE)
	sees(s, relaxed, kind.CardD, "train")
	s.Reserved(kind.CardD, 20000)
	s.Reserved(kind.CardE, 30000)

	// The memory beside the CPU is free again, and so is the CPU.
	s.Delete(holder, relaxed)
	again := s.Submit(aligned(s, "again", wire.Strict, cpu, stack.App("train", stack.GPU(1, 20000))))
	s.Running(again, "train")
	sees(s, again, kind.CardE, "train")
}

// Without the refit service best-effort pods start where they were placed, and strict pods fail and say why.
func TestWithoutRefitService(t *testing.T) {
	s := kind.Begin(t)
	scale := func(replicas int) {
		s.Must(scaleDeployment(context.WithoutCancel(s.Context()), s, "phasegpu-numarefit", replicas))
	}
	t.Cleanup(func() { scale(2) })
	scale(0)
	cpu := map[string]string{"train": "1"}
	relaxed := s.Submit(aligned(s, "relaxed", wire.BestEffort, cpu, stack.App("train", stack.GPU(1, 20000))))
	s.Running(relaxed, "train")
	sees(s, relaxed, kind.CardD, "train")
	s.Delete(relaxed)

	strict := s.Submit(aligned(s, "strict", wire.Strict, cpu, stack.App("train", stack.GPU(1, 20000))))
	s.Ended(strict, corev1.PodFailed)
	s.Event(strict, "UnexpectedAdmissionError", "refit service")
}
