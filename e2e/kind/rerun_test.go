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

// What the pods of these tests need: the second init container most.
const (
	atPeak   = 20100 // with the sidecar
	atSteady = 5100
)

// again is how the init containers of a pod come to run again.
type again func(s *kind.Story, pod *corev1.Pod)

// sandboxStopped stops the pod's sandbox through the runtime of its node.
func sandboxStopped(s *kind.Story, pod *corev1.Pod) {
	s.Helper()
	s.Must(s.Cluster.StopSandbox(s.Context(), pod))
	s.Logf("%s: its sandbox is stopped", pod.Name)
}

// exitRule has a container exit rule restart all containers in place.
func exitRule(s *kind.Story, pod *corev1.Pod) {
	s.Helper()
	s.Finish(pod, "a", restartAll)
}

const restartAll = 42

func TestRerunSandbox(t *testing.T) { runsAgain(t, sandboxStopped) }

func TestRerunExitRule(t *testing.T) { runsAgain(t, exitRule) }

// runsAgain: what is reserved goes up again with the init containers and down again, and a pod that waits for that
// memory is not let in meanwhile.
func runsAgain(t *testing.T, again again) {
	s := kind.Begin(t)
	w := witness(s)
	pod := steady(s, "again")
	again(s, pod)
	s.Holds(pod, atPeak)
	waiting := s.Submit(waiter(s, "waiter"))
	s.Pending(waiting, "Insufficient GPU memory")

	runsOnce(s, pod, "i0")
	s.StillPending(waiting)
	s.Holds(pod, atPeak)
	s.Finish(pod, "i0", 0)
	runsOnce(s, pod, "i1")
	s.StillPending(waiting)
	s.Holds(pod, atPeak)
	s.Finish(pod, "i1", 0)
	s.Holds(pod, atSteady)
	s.Scheduled(waiting)
	s.Running(waiting, "serve")
	runsOnce(s, pod, "a")
	s.Reserved(kind.CardA, atSteady+12288)
	s.Must(s.Cluster.CheckRecord(s.Context(), pod)) // kubelet asked the device plugin for nothing
	notOver(s, w)                                   // as it would have been had the other pod been let in earlier
}

// When the memory has gone to others meanwhile, the books show more than the card has and say so, and a pod that
// waited all along is not let in before that is over.
func TestRerunMemoryGone(t *testing.T) {
	s := kind.Begin(t)
	pod := steady(s, "again")
	other := s.Submit(kind.Pin(s.Pod("other", stack.App("serve", stack.GPU(1, 15000))), kind.CardA))
	s.Running(other, "serve")
	waiting := s.Submit(waiter(s, "waiter"))
	s.Pending(waiting, "Insufficient GPU memory")
	s.Reserved(kind.CardA, atSteady+15000)

	sandboxStopped(s, pod)
	s.Reserved(kind.CardA, atPeak+15000)
	s.Event(pod, "GPUOvercommitted", kind.CardA, fmt.Sprint(atPeak+15000))
	s.Delete(other)
	s.Reserved(kind.CardA, atPeak)
	s.StillPending(waiting)
	runsOnce(s, pod, "i0")
	s.Finish(pod, "i0", 0)
	runsOnce(s, pod, "i1")
	s.StillPending(waiting)
	s.Reserved(kind.CardA, atPeak)
	s.Finish(pod, "i1", 0)
	s.Scheduled(waiting)
	s.Reserved(kind.CardA, atSteady+12288)
}

// Nothing is charged again when an app or a sidecar restarts.
func TestRerunOrdinaryRestart(t *testing.T) {
	s := kind.Begin(t)
	pod := steady(s, "ordinary")
	s.Unmoved(pod, func() {
		for i, code := range []int32{1, 0} {
			for _, container := range []string{"a", "s"} {
				s.Finish(pod, container, code)
			}
			for _, container := range []string{"a", "s"} {
				restarted(s, pod, container, int32(i+1))
				s.Running(pod, container)
			}
		}
	})
	s.Reserved(kind.CardA, atSteady)
	s.Must(s.Cluster.CheckRecord(s.Context(), pod))
}

// steady brings a pod to its steady state. It has the shape of the pod on which a real kubelet was observed
// (core/testdata/vectors/kubelet-rerun.json), and an exit rule.
func steady(s *kind.Story, name string) *corev1.Pod {
	s.Helper()
	pod := kind.Pin(s.Pod(name,
		stack.Init("i0", stack.GPU(1, 8000)), stack.Sidecar("s", stack.GPU(1, 100)),
		stack.Init("i1", stack.GPU(1, 20000)), stack.App("a", stack.GPU(1, 5000))), kind.CardA)
	always := corev1.ContainerRestartPolicyAlways
	app := &pod.Spec.Containers[0]
	app.RestartPolicy = &always
	app.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{restartAll}},
	}}
	pod = s.Submit(pod)
	s.Finish(pod, "i0", 0)
	s.Finish(pod, "i1", 0)
	pod = s.Running(pod, "a")
	s.Holds(pod, atSteady)
	return pod
}

// waiter fits beside the steady state and not beside the peak.
func waiter(s *kind.Story, name string) *corev1.Pod {
	return kind.Pin(s.Pod(name, stack.App("serve", stack.GPU(1, 12288))), kind.CardA)
}

// runsOnce waits until a container runs that has been started again. What kubelet shows of a dead sandbox does not
// count.
func runsOnce(s *kind.Story, pod *corev1.Pod, container string) {
	s.Helper()
	s.Await(pod, "has "+container+" running again", func(p *corev1.Pod) error {
		if c := stack.ContainerStatus(p, container); c == nil || c.State.Running == nil || c.RestartCount == 0 {
			return errors.New(stack.Describe(p))
		}
		return nil
	})
}
