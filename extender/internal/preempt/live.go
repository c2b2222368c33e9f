package preempt

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// Live returns the questions to an API server: one request for each node, one for the budgets.
func Live(client kubernetes.Interface) (
	pods func(ctx context.Context, node string) ([]corev1.Pod, error),
	budgets func(ctx context.Context) ([]policyv1.PodDisruptionBudget, error),
) {
	pods = func(ctx context.Context, node string) ([]corev1.Pod, error) {
		here := fields.OneTermEqualSelector("spec.nodeName", node).String()
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: here})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	budgets = func(ctx context.Context) ([]policyv1.PodDisruptionBudget, error) {
		list, err := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	return pods, budgets
}
