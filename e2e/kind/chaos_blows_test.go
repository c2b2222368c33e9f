//go:build kind

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// blow is something bad that happens while pods come and go.
type blow struct {
	what string
	// strike returns when all is up again. It ends the test when phasegpu does not do as it should; an error says
	// that a tool (docker, systemctl) failed, so that nothing has happened to phasegpu.
	strike func(*siege) error
	// node on which kubelet may reject a pod that it allocates for, because kubelet or the device plugin restarts
	// then; none when it is empty.
	rejects string
	// node whose kubelet stops: containers that the runtime is starting for it then fail ("context canceled"), with or
	// without devices, and with them a pod that is never restarted.
	cancels string
}

func blows() []blow {
	return []blow{
		{what: "kubelet restarted", strike: restartKubelet, rejects: kind.Worker, cancels: kind.Worker},
		{what: "device plugin deleted", strike: deletePlugin, rejects: kind.Worker},
		{what: "leader killed", strike: killLeader},
		{what: "leader deleted", strike: deleteLeader},
		{what: "webhook down", strike: webhookDown},
		{what: "node paused", strike: pauseNode},
	}
}

// strike strikes a blow, again if a tool fails, and restarts the kubelet instead of a blow that cannot be struck at
// all. It returns the blow that was struck.
func (s *siege) strike(b blow) blow {
	s.Helper()
	for range 3 {
		err := b.strike(s)
		if err == nil {
			return b
		}
		s.Logf("%s: not done, because a tool failed: %v", b.what, err)
	}
	instead := blows()[0]
	s.Must(instead.strike(s))
	return instead
}

func restartKubelet(s *siege) error {
	if err := s.Cluster.RestartKubelet(s.Context(), kind.Worker); err != nil {
		return err
	}
	s.Must(s.Cluster.AwaitReady(s.Context(), kind.Worker))
	return nil
}

func deletePlugin(s *siege) error {
	pods, err := s.Cluster.SystemPods(s.Context(), "phasegpu-device-plugin")
	s.Must(err)
	for _, pod := range pods {
		if pod.Spec.NodeName == kind.Worker {
			s.Delete(&pod)
		}
	}
	return nil
}

func killLeader(s *siege) error {
	leader := s.leader()
	return stack.Together(
		func() error { return s.Cluster.KillContainer(s.Context(), leader, "kube-scheduler") },
		func() error { return s.Cluster.KillContainer(s.Context(), leader, "extender") },
	)
}

func deleteLeader(s *siege) error { return s.Cluster.ForceDelete(s.Context(), s.leader()) }

func (s *siege) leader() *corev1.Pod {
	name, err := s.Cluster.Leader(s.Context())
	s.Must(err)
	leader, err := s.Cluster.Pod(s.Context(), stack.NewPod(stack.SystemNamespace, name))
	s.Must(err)
	s.Logf("%s leads, on node %s", leader.Name, leader.Spec.NodeName)
	return leader
}

// webhookDown takes all of the webhook away and brings it back. Without it pods with devices are refused.
func webhookDown(s *siege) error {
	const name = "phasegpu-webhook"
	s.Cleanup(func() { _ = scaleDeployment(context.WithoutCancel(s.Context()), s.Story, name, 2) })
	s.Must(scaleDeployment(s.Context(), s.Story, name, 0))
	pod := s.Pod("late", stack.App("app", stack.GPU(1, 1)))
	s.Refused(pod, "pods.phasegpu.io")
	s.Must(scaleDeployment(s.Context(), s.Story, name, 2))
	s.Must(stack.Eventually(s.Context(), "pods with devices are admitted again", func(ctx context.Context) error {
		return s.Cluster.DryRun(ctx, pod)
	}))
	return nil
}

// scaleDeployment scales one of phasegpu's Deployments and waits until its pods are ready, and no others are left.
func scaleDeployment(ctx context.Context, s *kind.Story, name string, replicas int) error {
	kubectl := func(args ...string) error {
		return script(ctx, s, "kubectl", append([]string{"-n", stack.SystemNamespace}, args...)...)
	}
	if err := kubectl("scale", "deployment", name, fmt.Sprint("--replicas=", replicas)); err != nil {
		return err
	}
	if err := kubectl("rollout", "status", "deployment", name, "--timeout=1m"); err != nil {
		return err
	}
	return stack.Eventually(ctx, fmt.Sprintf("%s has %d pods", name, replicas), func(ctx context.Context) error {
		pods, err := s.Cluster.SystemPods(ctx, name)
		if err == nil && len(pods) != replicas {
			err = fmt.Errorf("it has %d", len(pods))
		}
		return err
	})
}

// pauseNode freezes a node until it counts as dead, sees that what runs on it stays charged, and lets it go on.
func pauseNode(s *siege) error {
	const node = kind.Worker2
	p := pause{node: node, from: time.Now()}
	if err := s.Cluster.PauseNode(s.Context(), node); err != nil {
		return err
	}
	resume := func() error { return s.Cluster.ResumeNode(context.WithoutCancel(s.Context()), node) }
	s.Cleanup(func() {
		if p.to.IsZero() {
			_ = resume()
		}
	})
	s.Must(stack.Within(s.Context(), 2*time.Minute, "node "+node+" is found dead", func(ctx context.Context) error {
		n, err := s.Cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it counts as ready")
	}))
	s.Logf("%s is not ready after %.0f s", node, time.Since(p.from).Seconds())
	s.charged()
	p.to = time.Now()
	s.Must(resume())
	s.paused = append(s.paused, p)
	s.Must(s.Cluster.AwaitReady(s.Context(), node))
	s.Logf("%s is ready %.0f s after it went on", node, time.Since(p.to).Seconds())
	return nil
}
