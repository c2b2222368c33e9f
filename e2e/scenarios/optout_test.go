package scenarios_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// optOuts: no label or annotation, of a pod or of its namespace, takes a pod with devices past admission or out of the
// books, not one that means so to others.
func optOuts(t *testing.T, p *scenarios.Play) {
	signs := map[string]string{
		"hami.io/webhook": "ignore", "phasegpu.io/ignore": "true", "phasegpu.io/webhook": "ignore", "webhook": "ignore",
		"control-plane": "controller-manager", "admission.phasegpu.io/ignore": "true",
		"app.kubernetes.io/name": "phasegpu-device-plugin", "app.kubernetes.io/part-of": "phasegpu",
	}
	patch := func(annotations bool) []byte {
		field := "labels"
		if annotations {
			field = "annotations"
		}
		text := ""
		for key, value := range signs {
			text += fmt.Sprintf(",%q:%q", key, value)
		}
		return fmt.Appendf(nil, `{"metadata":{%q:{%s}}}`, field, text[1:])
	}
	namespaces := p.Cluster.Client.CoreV1().Namespaces()
	for _, annotations := range []bool{false, true} {
		_, err := namespaces.Patch(p.Context(), p.Namespace, types.MergePatchType, patch(annotations),
			metav1.PatchOptions{})
		must(t, err)
	}
	must(t, stack.Eventually(p.Context(), "the API server knows the namespace's labels",
		func(ctx context.Context) error {
			n, err := namespaces.Get(ctx, p.Namespace, metav1.GetOptions{})
			if err == nil && n.Labels["hami.io/webhook"] != "ignore" {
				err = fmt.Errorf("they are %v", n.Labels)
			}
			return err
		}))

	signed := p.Pod("signed", stack.App("train", stack.GPU(1, 1000)))
	signed.Labels, signed.Annotations = signs, map[string]string{"hami.io/webhook": "ignore",
		"hami.io/vgpu-devices-allocated": "GPU-forged,NVIDIA,1,0:;"}
	signed = p.Submit(at("good", signed))
	if got := signed.Spec.SchedulerName; got != stack.SchedulerName {
		t.Errorf("its scheduler is %q", got)
	}
	if record, there := signed.Annotations["hami.io/vgpu-devices-allocated"]; there {
		t.Errorf("it was admitted with the record %q", record)
	}
	signed = p.Scheduled(signed)
	p.Running(signed, "train")
	p.Holds(signed, 1000)

	// Nor later.
	plain := p.Submit(at("good", p.Pod("plain", stack.App("train", stack.GPU(1, 2000)))))
	p.Running(p.Scheduled(plain), "train")
	for _, pod := range []*corev1.Pod{signed, plain} {
		for _, annotations := range []bool{false, true} {
			_, err := p.Cluster.Client.CoreV1().Pods(pod.Namespace).Patch(p.Context(), pod.Name, types.MergePatchType,
				patch(annotations), metav1.PatchOptions{})
			must(t, err)
		}
		must(t, p.Cluster.AwaitSeen(p.Context(), pod))
	}
	p.Holds(signed, 1000)
	p.Holds(plain, 2000)
	must(t, p.Cluster.AwaitAudit(p.Context()))
	p.Delete(signed)
	p.Delete(plain)
}
