//go:build kind

package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Every container's environment names exactly the devices and limits of its pod's record.
func TestContainersSeeTheirRecord(t *testing.T) {
	s := kind.Begin(t)
	small := s.Submit(kind.Pin(s.Pod("small", stack.App("serve", stack.GPU(1, 2576), stack.Cores(10))), kind.CardB))
	s.Running(small, "serve")

	// The init container fits only on the one card, and sidecar and app only beside each other: one of them gets
	// its ids from kubelet without the device plugin's being asked, and must have its own card all the same.
	split := s.Submit(kind.Pin(s.Pod("split",
		stack.Init("plain"),
		stack.Init("convert", stack.GPU(1, 23000), stack.Cores(30)),
		stack.Sidecar("cache", stack.GPU(1, 16000), stack.Cores(20)),
		stack.Init("tune", stack.GPU(2, 500)),
		stack.App("none"),
		stack.App("serve", stack.GPU(1, 15000), stack.Cores(40))), kind.CardA, kind.CardB))
	split = s.Scheduled(split)
	cards := cardsOf(s, split)
	if cards["convert"] != kind.CardA || cards["cache"] == cards["serve"] {
		t.Fatalf("the containers are not on the cards that this test is about: %v", cards)
	}
	for _, container := range []string{"plain", "convert", "tune"} {
		s.Finish(split, container, 0)
	}
	s.Running(split, "serve")

	// Several devices in one container, of which kubelet reuses the init container's.
	wide := s.Submit(kind.Pin(s.Pod("wide",
		stack.Init("load", stack.GPU(1, 4000)), stack.App("train", stack.GPU(2, 2048),
			stack.Cores(5)), stack.App("watch", stack.GPU(1, 100))), kind.CardA, kind.CardB))
	wide = s.Scheduled(wide)
	s.Finish(wide, "load", 0)
	s.Running(wide, "train")
	s.Running(wide, "watch")

	// A percentage and the whole card, which have no MiB before they have a card.
	half := s.Submit(kind.Pin(s.Pod("half", stack.Init("load", stack.Limit{"nvidia.com/gpu": "1"}),
		stack.App("serve", stack.Limit{"nvidia.com/gpumem-percentage": "50"})), kind.CardC))
	half = s.Scheduled(half)
	s.Finish(half, "load", 0)
	s.Running(half, "serve")

	for _, pod := range []*corev1.Pod{s.Running(small, "serve"), split, wide, half} {
		s.Must(s.Cluster.CheckRecord(s.Context(), pod))
		s.Logf("%s: every container sees what is recorded: %s", pod.Name,
			pod.Annotations["hami.io/vgpu-devices-allocated"])
	}

	// A container that is started again is not allocated for again.
	s.Finish(split, "cache", 1)
	s.Finish(split, "serve", 1)
	for _, container := range []string{"cache", "serve"} {
		restarted(s, split, container, 1)
		s.Running(split, container)
	}
	s.Must(s.Cluster.CheckRecord(s.Context(), split))
}

// cardsOf returns the first card of each container by its pod's record.
func cardsOf(s *kind.Story, pod *corev1.Pod) map[string]string {
	s.Helper()
	allocation, err := kube.Allocation(pod)
	s.Must(err)
	cards := map[string]string{}
	for position, shares := range allocation {
		if len(shares) > 0 {
			cards[kube.Container(&pod.Spec, position).Name] = shares[0].UUID
		}
	}
	return cards
}
