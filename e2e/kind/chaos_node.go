package kind

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForceDelete deletes a pod without waiting for its kubelet: the API has it no more, its containers may run on
// for a while. One that is gone already is no error.
func (c *Cluster) ForceDelete(ctx context.Context, pod *corev1.Pod) error {
	at := metav1.NewDeleteOptions(0)
	at.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *at)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// KillContainer kills the first process of a running container, as if it had crashed.
func (c *Cluster) KillContainer(ctx context.Context, pod *corev1.Pod, container string) error {
	id, err := c.OnNode(ctx, pod.Spec.NodeName, "crictl", "ps", "-q", "--name", "^"+container+"$", "--label",
		"io.kubernetes.pod.uid="+string(pod.UID))
	if err != nil {
		return err
	}
	if id = strings.TrimSpace(id); len(strings.Fields(id)) != 1 {
		return fmt.Errorf("container %s of pod %s/%s has the ids %q on node %s, want one", container, pod.Namespace,
			pod.Name, id, pod.Spec.NodeName)
	}
	process, err := c.OnNode(ctx, pod.Spec.NodeName, "crictl", "inspect", "--output=go-template",
		"--template={{.info.pid}}", id)
	if err != nil {
		return err
	}
	_, err = c.OnNode(ctx, pod.Spec.NodeName, "kill", "-KILL", strings.TrimSpace(process))
	return err
}
