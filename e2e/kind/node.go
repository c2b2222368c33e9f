package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// OnNode runs a program on a node, which is a container, and returns what it prints.
func (c *Cluster) OnNode(ctx context.Context, node string, args ...string) (string, error) {
	return command(ctx, "docker", append([]string{"exec", node}, args...)...)
}

// PauseNode freezes a node with everything on it, ResumeNode lets it go on. Docker is asked for up to a minute: on a
// busy machine it answers "unable to freeze" now and then, having frozen nothing.
func (c *Cluster) PauseNode(ctx context.Context, node string) error {
	return stack.Eventually(ctx, "docker pauses node "+node, func(ctx context.Context) error {
		_, err := command(ctx, "docker", "pause", node)
		return err
	})
}

// ResumeNode undoes PauseNode.
func (c *Cluster) ResumeNode(ctx context.Context, node string) error {
	_, err := command(ctx, "docker", "unpause", node)
	return err
}

// RestartKubelet restarts a node's kubelet, and returns when it was started again.
func (c *Cluster) RestartKubelet(ctx context.Context, node string) error {
	_, err := c.OnNode(ctx, node, "systemctl", "restart", "kubelet")
	return err
}

// StopSandbox stops a bound pod's sandbox through the container runtime of its node, as if by accident.
func (c *Cluster) StopSandbox(ctx context.Context, pod *corev1.Pod) error {
	id, err := c.OnNode(ctx, pod.Spec.NodeName, "crictl", "pods", "-q", "--state", "Ready", "--label",
		"io.kubernetes.pod.uid="+string(pod.UID))
	if err != nil {
		return err
	}
	if id = strings.TrimSpace(id); len(strings.Fields(id)) != 1 {
		return fmt.Errorf("pod %s/%s has the sandboxes %q on node %s, want one", pod.Namespace, pod.Name, id,
			pod.Spec.NodeName)
	}
	_, err = c.OnNode(ctx, pod.Spec.NodeName, "crictl", "stopp", id)
	return err
}

// AwaitReady waits until a node's kubelet reports it ready.
func (c *Cluster) AwaitReady(ctx context.Context, node string) error {
	return stack.Eventually(ctx, fmt.Sprintf("node %s is ready", node), func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("it is not: %s %s", condition.Reason, condition.Message)
			}
		}
		return errors.New("it has not said")
	})
}
