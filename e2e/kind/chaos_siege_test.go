//go:build kind

package kind_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestSiege: one blow after another hits kubelet, device plugin, extender, webhook and a node, each
// in the middle of a crowd of pods. What ran before goes on running and stays charged, the crowd completes, no
// container gets another's devices, and pods without devices are never affected.
//
// A pod that kubelet allocates for while it or the device plugin restarts may be rejected (design, section 8):
// Kubernetes has no way to try again. Then it says why. One whose container was being started when kubelet stopped
// fails.
func TestSiege(t *testing.T) {
	s := &siege{Story: kind.Begin(t)}
	s.witness = witness(s.Story)
	s.trickle = startTrickle(s.Story)
	s.stand()
	for i, b := range blows() {
		s.suffer(fmt.Sprint("p", i), b)
	}
	s.end()
	notOver(s.Story, s.witness)
}

// siege is a run of TestSiege.
type siege struct {
	*trickle
	*kind.Story
	witness  *stack.Witness
	standing []*corev1.Pod // which run all the time
	reserved map[string]stack.Amount
}

// numCrowd pods come before each blow, which is struck when numBefore of them have ended.
const numCrowd, numBefore = 24, 4

// stand starts the pods that are to run all the time, on each worker.
func (s *siege) stand() {
	for card, name := range map[string]string{kind.CardB: "w1", kind.CardC: "w2"} {
		for _, pod := range []*corev1.Pod{
			s.Pod(name+"-app", stack.App("app", stack.GPU(1, 501))),
			s.Pod(name+"-side", stack.Sidecar("side", stack.GPU(1, 502)), stack.App("app", stack.GPU(1, 503))),
			s.Pod(name+"-init", kind.Runs(stack.Init("load", stack.GPU(1, 601)), "env"),
				stack.App("app", stack.GPU(1, 504))),
		} {
			s.standing = append(s.standing, s.Submit(kind.Pin(pod, card)))
		}
	}
	for i, pod := range s.standing {
		s.standing[i] = s.Running(pod, "app")
		s.Must(s.Cluster.CheckRecord(s.Context(), s.standing[i]))
	}
	s.Must(s.Cluster.AwaitAudit(s.Context()))
	s.reserved = s.held(s.Books())
}

// held is what the books have for the standing pods, by "pod/uuid".
func (s *siege) held(l *stack.Ledger) map[string]stack.Amount {
	held := map[string]stack.Amount{}
	for _, pod := range s.standing {
		if p := l.Pod(pod); p != nil {
			for _, d := range p.Devices {
				held[pod.Name+"/"+d.UUID] = d.Reserved
			}
		}
	}
	return held
}

// charged expects that the books, as soon as a leader shows them, have of the standing pods what they had before.
func (s *siege) charged() {
	s.Helper()
	s.AwaitBooks("what runs is charged", func(l *stack.Ledger) error {
		if got := s.held(l); !maps.Equal(got, s.reserved) {
			return fmt.Errorf("charged is %v, not %v", got, s.reserved)
		}
		return nil
	})
}

// suffer strikes a blow in the middle of a crowd.
func (s *siege) suffer(name string, b blow) {
	s.Helper()
	c := newCrowd(s.Story, s.witness, name, numCrowd)
	s.Cleanup(c.tidy)
	c.create()
	c.awaitEnded(numBefore, 2*time.Minute)
	s.Logf("%s …", b.what)
	began := time.Now()
	b = s.strike(b)
	s.charged()
	s.Logf("%s: over after %.0f s", b.what, time.Since(began).Seconds())
	c.awaitEnded(numCrowd, 4*time.Minute)
	rejected := 0
	for _, planned := range c.pods {
		pod, _ := s.witness.Last(planned)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
		case b.rejects != "" && b.rejects == pod.Spec.NodeName && saysWhy(pod):
			rejected++
			s.Logf("%s: %s", pod.Name, stack.Describe(pod))
		case b.cancels != "" && b.cancels == pod.Spec.NodeName && canceled(pod):
			s.Logf("%s: the runtime gave up a start: %s", pod.Name, stack.Describe(pod))
		default:
			s.Errorf("%s: pod %s is %s", b.what, pod.Name, stack.Describe(pod))
		}
	}
	c.check()
	for _, pod := range s.standing {
		runsOn(s.Story, pod)
	}
	s.Must(s.Cluster.AwaitAudit(s.Context()))
	s.Must(s.Cluster.Audit(s.Context()))
	s.Logf("%s: all %d have ended after %.0f s, %d of them rejected", b.what, numCrowd, time.Since(began).Seconds(),
		rejected)
}

// saysWhy reports whether kubelet rejected a pod for want of devices and says so in its status.
func saysWhy(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "UnexpectedAdmissionError" &&
		strings.Contains(pod.Status.Message, "nvidia.com/gpu")
}

// canceled reports whether a pod failed because the runtime gave up the start of one of its containers.
func canceled(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.Reason == "StartError" &&
				strings.Contains(t.Message, "context canceled") {
				return pod.Status.Phase == corev1.PodFailed
			}
		}
	}
	return false
}
