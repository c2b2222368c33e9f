package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Retry makes kube-scheduler look at a pending pod again, and returns when it has, having bound it or not.
//
// The scheduler says in condition PodScheduled which generation of the pod it looked at, but writes it only
// when something else in the condition changes. So the condition is taken away, and then the pod's
// generation is raised by a toleration of nothing, which also makes the scheduler try it. A try that was under
// way meanwhile makes that necessary once more; any of a generation since the first change will do.
//
// It is for pods that the extender refused: those that kube-scheduler's own plugins refuse are not tried for such a
// change.
func (c *Cluster) Retry(ctx context.Context, pod *corev1.Pod) error {
	first := int64(-1)
	_, err := c.Await(ctx, pod, "is tried by kube-scheduler again", func(p *corev1.Pod) (err error) {
		last := podCondition(p, corev1.PodScheduled)
		switch {
		case p.Spec.NodeName != "":
			return nil
		case first < 0 || last != nil && last.ObservedGeneration < first: // that was an earlier try
			generation, err := c.provoke(ctx, p)
			if err != nil {
				return err
			}
			if first < 0 {
				first = generation
			}
			return errors.New("it has just been changed")
		case last == nil:
			return fmt.Errorf("kube-scheduler has said nothing of generation %d", first)
		}
		return nil
	})
	return err
}

// provoke changes a pod so that kube-scheduler tries it, and returns its new generation.
func (c *Cluster) provoke(ctx context.Context, pod *corev1.Pod) (int64, error) {
	patch := func(kind types.PatchType, what any, subresources ...string) (*corev1.Pod, error) {
		body, err := json.Marshal(what)
		if err != nil {
			return nil, err
		}
		return c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, body, metav1.PatchOptions{},
			subresources...)
	}
	_, err := patch(types.StrategicMergePatchType, map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": corev1.PodScheduled, "$patch": "delete"},
	}}}, "status")
	if err != nil {
		return 0, err
	}
	toleration := corev1.Toleration{
		Key: fmt.Sprintf("e2e.phasegpu.io/retry-%d", len(pod.Spec.Tolerations)), Operator: corev1.TolerationOpExists,
	}
	changed, err := patch(types.JSONPatchType, []any{
		map[string]any{"op": "add", "path": "/spec/tolerations/-", "value": toleration},
	})
	if err != nil {
		return 0, err
	}
	return changed.Generation, nil
}
