//go:build kind

package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// A failed init container keeps its memory while it may be retried, and a pod that has ended keeps none, whatever
// its containers did.
func TestInitEnds(t *testing.T) {
	s := kind.Begin(t)
	trainer := func(name string, policy corev1.RestartPolicy, card string, train ...string) *corev1.Pod {
		app := stack.App("train", stack.GPU(1, 10240))
		if train != nil {
			app = kind.Runs(app, train...)
		}
		pod := kind.Pin(s.Pod(name, stack.Init("load", stack.GPU(1, 20480)), app), card)
		pod.Spec.RestartPolicy = policy
		return s.Submit(pod)
	}

	retried := trainer("retried", corev1.RestartPolicyOnFailure, kind.CardA)
	s.Running(retried, "load")
	s.Unmoved(retried, func() {
		s.Finish(retried, "load", 1)
		restarted(s, retried, "load", 1)
		s.Finish(retried, "load", 2) // and now it is kept waiting for a while
	})
	s.Reserved(kind.CardA, 20480)
	_, err := s.Cluster.Client.CoreV1().Pods(s.Namespace).Patch(s.Context(), retried.Name, types.MergePatchType,
		[]byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
	s.Must(err)
	s.Ended(retried, corev1.PodFailed)
	s.Reserved(kind.CardA, 0)

	once := trainer("once", corev1.RestartPolicyNever, kind.CardB)
	brief := trainer("brief", corev1.RestartPolicyNever, kind.CardC, "env")
	s.Running(once, "load")
	s.Running(brief, "load")
	s.Reserved(kind.CardB, 20480)
	s.Reserved(kind.CardC, 20480)
	s.Finish(once, "load", 1)
	s.Ended(once, corev1.PodFailed)
	s.Reserved(kind.CardB, 0)
	s.Finish(brief, "load", 0) // its app exits at once, so that kubelet may never show it running
	s.Ended(brief, corev1.PodSucceeded)
	s.Reserved(kind.CardC, 0)
}

// One of two init containers done, and the second fails again and again: how much is given back is the pod's
// choice.
func TestInitPolicies(t *testing.T) {
	s := kind.Begin(t)
	var pods []*corev1.Pod
	for _, release := range []string{"per-init", "all-inits", "hold"} {
		pod := kind.Pin(s.Pod(release,
			stack.Init("first", stack.GPU(1, 1024)), stack.Init("second", stack.GPU(1, 512)), stack.App("app",
				stack.GPU(1, 256))), kind.CardA)
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		pods = append(pods, s.Submit(stack.Annotate(pod, wire.ReleaseAnnotation, release)))
	}
	for _, pod := range pods {
		s.Scheduled(pod)
	}
	s.Reserved(kind.CardA, 1024+1024+1024)

	for i, reserved := range []int64{512, 1024, 1024} {
		s.Finish(pods[i], "first", 0)
		s.Running(pods[i], "second")
		s.Holds(pods[i], reserved)
	}
	s.Reserved(kind.CardA, 512+1024+1024)
	s.Unmoved(pods[2], func() {
		for times := range int32(2) {
			for _, pod := range pods {
				s.Finish(pod, "second", 1)
			}
			for _, pod := range pods {
				restarted(s, pod, "second", times+1)
			}
		}
	})
	s.Reserved(kind.CardA, 512+1024+1024)

	for i, reserved := range []int64{256, 256, 1024} {
		s.Finish(pods[i], "second", 0)
		s.Running(pods[i], "app")
		s.Holds(pods[i], reserved)
	}
	s.Reserved(kind.CardA, 256+256+1024)
}
