package stack

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// AwaitCounted waits until the API server charges the requests. keys of a ResourceQuota, two at least, with the sum
// of Kubernetes' own fold over the raw quantities of these pods, which are all of the namespace. It returns what is
// charged.
//
// kube-controller-manager may have overwritten what admission charged by a count of pods that it did not see yet, and
// counts again only after minutes unless it is made to.
func (c *Cluster) AwaitCounted(ctx context.Context, namespace, quota string, pods ...*corev1.Pod) (corev1.ResourceList,
	error) {
	sums := corev1.ResourceList{}
	for _, pod := range pods {
		for name, amount := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
			sum := sums["requests."+name]
			sum.Add(amount)
			sums["requests."+name] = sum
		}
	}
	var used corev1.ResourceList
	err := Eventually(ctx, "the API server charges its own fold", func(ctx context.Context) error {
		q, err := c.Client.CoreV1().ResourceQuotas(namespace).Get(ctx, quota, metav1.GetOptions{})
		if err != nil {
			return err
		}
		used = q.Status.Used
		compared := 0
		for key, amount := range used {
			want, ours := sums[key]
			if !ours {
				continue
			}
			compared++
			if amount.Cmp(want) != 0 {
				if err := c.Recount(ctx, namespace, quota); err != nil {
					return err
				}
				return fmt.Errorf("%s: it charges %s, the fold is %s", key, amount.String(), want.String())
			}
		}
		if compared < 2 {
			return fmt.Errorf("it charges %v only", used)
		}
		return nil
	})
	return used, err
}

// Recount has kube-controller-manager charge a quota anew, as it does from time to time and when a quota
// changes: "services", which is of no matter here, is limited for a moment.
func (c *Cluster) Recount(ctx context.Context, namespace, quota string) error {
	for _, services := range []any{"1000", nil} {
		if err := c.ChangeQuota(ctx, namespace, quota, map[string]any{"services": services}); err != nil {
			return err
		}
	}
	return nil
}
