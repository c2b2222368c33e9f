package stack

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DryRun returns the API server's answer to the creation of a pod, which it does not carry out.
func (c *Cluster) DryRun(ctx context.Context, pod *corev1.Pod) error {
	_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
