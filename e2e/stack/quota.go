package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// Quota creates a ResourceQuota and waits until it is obeyed.
func (c *Cluster) Quota(ctx context.Context, namespace, name string, hard map[corev1.ResourceName]string) error {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	q.Spec.Hard = corev1.ResourceList{}
	for key, text := range hard {
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("quota %s/%s: %s %q: %w", namespace, name, key, text, err)
		}
		q.Spec.Hard[key] = amount
	}
	if _, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(ctx, q, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.AwaitQuota(ctx, namespace, name)
}

// ChangeQuota sets limits of a ResourceQuota, a nil one to none, and waits until that is obeyed.
func (c *Cluster) ChangeQuota(ctx context.Context, namespace, name string, hard map[string]any) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().ResourceQuotas(namespace).Patch(ctx, name, types.MergePatchType, body,
		metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return c.AwaitQuota(ctx, namespace, name)
}

// AwaitQuota waits until API server, extender and webhook obey a quota of a namespace. The webhook is asked
// by dry runs of pods that no quota of these would allow.
func (c *Cluster) AwaitQuota(ctx context.Context, namespace, name string) error {
	return Eventually(ctx, fmt.Sprintf("quota %s/%s is obeyed", namespace, name), func(ctx context.Context) error {
		q, err := c.Client.CoreV1().ResourceQuotas(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for key, limit := range q.Spec.Hard {
			counted := q.Status.Hard[key]
			if counted.Cmp(limit) != 0 {
				return fmt.Errorf("its status has no %s yet", key)
			}
			family, kind := ours(key)
			if family == nil {
				continue
			}
			if l, err := c.Ledger(ctx); err != nil || !l.hasQuota(namespace, name, key) {
				return fmt.Errorf("the extender does not list its %s (%v)", key, err)
			}
			if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
				continue // the probe would have to be in scope
			}
			if err := c.webhookHasQuota(ctx, q, key, family, kind); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Ledger) hasQuota(namespace, name string, key corev1.ResourceName) bool {
	for _, n := range l.Namespaces {
		for _, q := range n.Quotas {
			if n.Name == namespace && q.Quota == name && q.Resource == string(key) {
				return true
			}
		}
	}
	return false
}

// webhookHasQuota asks for more than a key allows, on as many devices as it takes.
func (c *Cluster) webhookHasQuota(
	ctx context.Context, q *corev1.ResourceQuota, key corev1.ResourceName, f *families.Family, kind families.Kind,
) error {
	limit := q.Spec.Hard[key]
	more := limit.Value() + 1
	limits := Limit{f.Count: "1", f.Memory: fmt.Sprint(more)}
	if kind == families.Cores {
		limits[f.Count], limits[f.Memory] = fmt.Sprint(more/device.WholeCores+1), "1"
		limits[f.Cores] = fmt.Sprint(device.WholeCores)
	} else if most := int64(device.MaxMemoryMiB) / f.MemoryBlockMiB; more > most {
		limits[f.Count], limits[f.Memory] = fmt.Sprint(more/most+1), fmt.Sprint(most)
	}
	err := c.DryRun(ctx, NewPod(q.Namespace, "probe", App("app", limits)))
	if apierrors.IsForbidden(err) && Lacks(err.Error(), "admission webhook", fmt.Sprintf("%q", q.Name)) == nil {
		return nil
	}
	return fmt.Errorf("the webhook does not obey its %s: its answer to a pod with more is %v", key, err)
}

// ours finds the family whose memory or cores a quota key limits, and which of the two; nil for other keys.
func ours(key corev1.ResourceName) (*families.Family, families.Kind) {
	prefix, rest, _ := strings.Cut(string(key), ".")
	if prefix != "limits" && prefix != "requests" {
		return nil, families.Memory
	}
	word, kind := classify.Resource(corev1.ResourceName(rest))
	if kind != families.Memory && kind != families.Cores {
		return nil, kind
	}
	return classify.Family(word), kind
}
