//go:build kind

package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// limits. keys follow a pod's phases, requests. keys the API server's own fold over raw quantities, for as
// long as the pod lives; both hold in one namespace.
func TestQuota(t *testing.T) {
	const team = "team"
	s := kind.Begin(t)
	s.Must(s.Cluster.Quota(s.Context(), s.Namespace, team, map[corev1.ResourceName]string{
		"limits.nvidia.com/gpumem": "24576", "requests.nvidia.com/gpumem": "30000", "requests.nvidia.com/gpu": "8",
	}))
	counted := func(pods ...*corev1.Pod) {
		t.Helper()
		used, err := s.Cluster.AwaitCounted(s.Context(), s.Namespace, team, pods...)
		s.Must(err)
		memory := used["requests.nvidia.com/gpumem"]
		s.Logf("the API server charges %s", memory.String())
	}
	s.Refused(s.Pod("greedy", stack.Init("load", stack.GPU(1, 24577)), stack.App("train", stack.GPU(1, 4096))),
		`init container "load"`, "peak of 24577 MiB", `ResourceQuota "team"`, "24576")

	first := s.Submit(kind.Pin(s.Pod("first", stack.Init("load", stack.GPU(1, 20480)),
		stack.App("train", stack.GPU(2, 5120))), kind.CardA, kind.CardB))
	s.Running(first, "load")
	s.Charged(20480)
	counted(first) // per device, not times devices

	// It has no MiB before it has a card, so it is admitted, and held to the quota when it is placed.
	half := s.Submit(kind.Pin(s.Pod("half", stack.App("serve", stack.Limit{"nvidia.com/gpumem-percentage": "50"})),
		kind.CardA, kind.CardB))
	s.Pending(half, "limits.nvidia.com/gpumem", "20480", "12288", "24576")
	s.StillPending(half)
	counted(first, half)

	s.Finish(first, "load", 0)
	s.Scheduled(half) // by itself
	s.Running(half, "serve")
	s.Charged(2*5120 + 12288)
	s.Must(s.Cluster.Recount(s.Context(), s.Namespace, team))
	counted(first, half)
	s.Delete(half)
	s.Charged(2 * 5120)
	counted(first)

	// Our charge has room for it, and the API server's has not.
	second := s.Pod("second", stack.App("serve", stack.GPU(1, 10000)))
	s.Refused(second, "exceeded quota: team", "requests.nvidia.com/gpumem")
	s.Must(s.Cluster.ChangeQuota(s.Context(), s.Namespace, team, map[string]any{"requests.nvidia.com/gpumem": nil}))
	second = s.Submit(second)
	s.Running(second, "serve")
	s.Charged(2*5120 + 10000)
	s.Refused(s.Pod("third", stack.App("serve", stack.GPU(1, 4337))), `ResourceQuota "team"`, "allows 24576 MiB",
		"20240")
	s.Delete(first)
	s.Charged(10000)
}
