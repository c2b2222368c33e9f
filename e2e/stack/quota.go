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
	_, err = c.Client.CoreV1().ResourceQuotas(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
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
			if err := c.extenderHasQuota(ctx, namespace, name, key); err != nil {
				return err
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

func (c *Cluster) extenderHasQuota(ctx context.Context, namespace, name string, key corev1.ResourceName) error {
	l, err := c.Ledger(ctx)
	if err != nil {
		return err
	}
	for _, n := range l.Namespaces {
		for _, q := range n.Quotas {
			if n.Name == namespace && q.Quota == name && q.Resource == string(key) {
				return nil
			}
		}
	}
	return fmt.Errorf("the extender does not list its %s", key)
}

// webhookHasQuota asks for more than a key allows, on as many devices as it takes.
func (c *Cluster) webhookHasQuota(
	ctx context.Context, q *corev1.ResourceQuota, key corev1.ResourceName, f *families.Family, kind families.Kind,
) error {
	limit := q.Spec.Hard[key]
	more := limit.Value() + 1
	limits := Limit{f.Count: "1", f.Memory: fmt.Sprint(more)}
	if kind == families.Cores {
		limits = Limit{f.Count: fmt.Sprint(more/device.WholeCores + 1), f.Memory: "1", f.Cores: fmt.Sprint(device.WholeCores)}
	} else if most := int64(device.MaxMemoryMiB) / f.MemoryBlockMiB; more > most {
		limits = Limit{f.Count: fmt.Sprint(more/most + 1), f.Memory: fmt.Sprint(most)}
	}
	probe := NewPod(q.Namespace, "probe", App("app", limits))
	_, err := c.Client.CoreV1().Pods(q.Namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf("the webhook does not obey its %s", key)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "admission webhook") && strings.Contains(err.Error(), fmt.Sprintf("%q", q.Name)):
		return nil
	}
	return fmt.Errorf("a pod with more than its %s: %w", key, err)
}

// ours finds the family whose memory or cores a quota key limits, and tells which.
func ours(key corev1.ResourceName) (*families.Family, families.Kind) {
	word, kind := classify.Resource(resourceOf(key))
	if kind != families.Memory && kind != families.Cores {
		return nil, kind
	}
	return classify.Family(word), kind
}

// resourceOf is what a quota key limits, without "limits." or "requests."; "" without either.
func resourceOf(key corev1.ResourceName) corev1.ResourceName {
	for _, prefix := range []string{"limits.", "requests."} {
		if rest, ok := strings.CutPrefix(string(key), prefix); ok {
			return corev1.ResourceName(rest)
		}
	}
	return ""
}
