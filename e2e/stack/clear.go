package stack

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Clear deletes a namespace's pods and quotas, and waits until they are gone from the API server and from
// the extender's books.
func (c *Cluster) Clear(ctx context.Context, namespace string) error {
	core := c.Client.CoreV1()
	all := metav1.ListOptions{}
	if err := errors.Join(
		core.Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		core.ResourceQuotas(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	); err != nil {
		return err
	}
	return Eventually(ctx, fmt.Sprintf("namespace %s is empty", namespace), func(ctx context.Context) error {
		pods, err := core.Pods(namespace).List(ctx, all)
		if err != nil {
			return err
		}
		if n := len(pods.Items); n > 0 {
			return fmt.Errorf("it has %d pods, %s among them", n, pods.Items[0].Name)
		}
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		return l.empty(namespace)
	})
}

// empty returns an error if the books have something of a namespace.
func (l *Ledger) empty(namespace string) error {
	for _, n := range l.Namespaces {
		if n.Name == namespace && len(n.Quotas) > 0 {
			return fmt.Errorf("the books have quota %s", n.Quotas[0].Quota)
		}
	}
	for _, n := range l.Nodes {
		for _, p := range n.Pods {
			if p.Namespace == namespace {
				return fmt.Errorf("the books have pod %s on node %s", p.Name, n.Name)
			}
		}
	}
	return nil
}
