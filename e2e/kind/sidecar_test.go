//go:build kind

package kind_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// A sidecar counts beside the app, for good.
func TestSidecarAndApp(t *testing.T) {
	s := kind.Begin(t)
	first := s.Submit(kind.Pin(s.Pod("first",
		stack.Sidecar("cache", stack.GPU(1, 10240)), stack.App("serve", stack.GPU(1, 10240))), kind.CardA))
	s.Scheduled(first)
	s.Reserved(kind.CardA, 20480)
	s.Running(first, "serve")

	second := s.Submit(kind.Pin(s.Pod("second", stack.App("serve", stack.GPU(1, 12288))), kind.CardA))
	s.Pending(second, "Insufficient GPU memory")
	s.StillPending(second)
	s.Reserved(kind.CardA, 20480)
}

// Where a sidecar is declared decides whether it counts beside an init container: one that starts after a larger
// init container does not.
func TestSidecarOrder(t *testing.T) {
	s := kind.Begin(t)
	load, cache, train := stack.Init("load", stack.GPU(1, 20480)), stack.Sidecar("cache",
		stack.GPU(1, 2048)), stack.App("train", stack.GPU(1, 10240))
	before := s.Submit(kind.Pin(s.Pod("cache-first", cache, load, train), kind.CardA))
	after := s.Submit(kind.Pin(s.Pod("load-first", load, cache, train), kind.CardB))
	s.Running(before, "cache")
	s.Running(before, "load")
	if now := s.Running(after, "load"); stack.ContainerStatus(now, "cache").State.Running != nil {
		s.Fatalf("the sidecar runs before its turn: %s", stack.Describe(now))
	}
	s.Reserved(kind.CardA, 22528)
	s.Reserved(kind.CardB, 20480)

	for _, pod := range []*corev1.Pod{before, after} {
		s.Finish(pod, "load", 0)
		s.Running(pod, "cache")
		s.Running(pod, "train")
		s.Holds(pod, 12288)
	}
	s.Reserved(kind.CardA, 12288)
	s.Reserved(kind.CardB, 12288)
}

// A sidecar that crashes again and again, with exit code 0 or another, moves nothing: not while an init
// container runs, nor when the app does, nor in a pod without init containers other than sidecars.
func TestSidecarCrashes(t *testing.T) {
	s := kind.Begin(t)
	crashes := func(name string, code int, memoryMiB int64) stack.Container {
		return kind.Runs(stack.Sidecar(name, stack.GPU(1, memoryMiB)), "sleep=2s", fmt.Sprintf("exit=%d", code))
	}
	server := s.Submit(kind.Pin(s.Pod("server",
		crashes("cache", 0, 2048), stack.Sidecar("proxy", stack.GPU(1, 8192)), stack.App("serve",
			stack.GPU(1, 10240))), kind.CardC))
	s.Scheduled(server)
	s.Reserved(kind.CardC, 20480)
	s.Unmoved(server, func() { s.Running(server, "serve") })

	load, train := stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))
	zero := s.Submit(kind.Pin(s.Pod("exits-0", crashes("cache", 0, 2048), load, train), kind.CardA))
	one := s.Submit(kind.Pin(s.Pod("exits-1", crashes("cache", 1, 2048), load, train), kind.CardB))
	trainers := []*corev1.Pod{zero, one}
	for _, pod := range trainers {
		s.Running(pod, "load")
		s.Holds(pod, 22528)
	}
	s.Unmoved(one, func() {
		for _, pod := range trainers {
			restarted(s, pod, "cache", 1)
		}
	})
	for _, pod := range trainers {
		s.Finish(pod, "load", 0)
		s.Running(pod, "train")
		s.Holds(pod, 12288)
	}
	s.Unmoved(one, func() {
		for _, pod := range []*corev1.Pod{zero, one, server} {
			restarted(s, pod, "cache", 2)
		}
	})
	s.Reserved(kind.CardA, 12288)
	s.Reserved(kind.CardB, 12288)
	s.Reserved(kind.CardC, 20480)
}

// restarted waits until a container has been started again so many times.
func restarted(s *kind.Story, pod *corev1.Pod, container string, times int32) {
	s.Helper()
	s.Await(pod, fmt.Sprintf("has %s restarted %d×", container, times), func(p *corev1.Pod) error {
		if c := stack.ContainerStatus(p, container); c == nil || c.RestartCount < times {
			return errors.New(stack.Describe(p))
		}
		return nil
	})
}
