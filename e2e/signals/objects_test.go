package signals

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// nodeName is a node with three cards, two of which take nothing new.
const nodeName = "n1"

// populate creates the objects for which the binaries' metrics of objects have a value.
func populate(ctx context.Context, cp *controlplane.ControlPlane) error {
	client, err := kubernetes.NewForConfig(cp.Admin())
	if err != nil {
		return err
	}
	card := func(index int, rest string) string {
		const format = `{"id":"GPU-%d","index":%d,"count":10,"devmem":24576,"devcore":100,"type":"A",%s}`
		return fmt.Sprintf(format, index, index, rest)
	}
	inventory := "[" + card(0, `"mode":"hami-core","health":true`) + "," + card(1, `"mode":"hami-core"`) + "," +
		card(2, `"mode":"mig","health":true`) + "]"
	for name, inventory := range map[string]string{nodeName: inventory, "unreadable": "garbage"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"hami.io/node-nvidia-register": inventory, "hami.io/device-cordon": "GPU-1",
		}}}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}
		if _, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	cluster := &stack.Cluster{Client: client}
	if err := cluster.Namespace(ctx, "team"); err != nil {
		return err
	}
	// Two are in the gate together and hold too much, one holds a card that the node does not list.
	for name, uuid := range map[string]string{"in-the-gate": "GPU-0", "too-much": "GPU-0", "lost": "GPU-9"} {
		pod := stack.NewPod("team", name, stack.Init("init", stack.GPU(1, 20000)), stack.App("app", stack.GPU(1, 5000)))
		record := fmt.Sprintf("%s,NVIDIA,20000,0:;%s,NVIDIA,5000,0:;", uuid, uuid)
		pod = stack.Annotate(pod, "hami.io/vgpu-devices-allocated", record)
		pod.Spec.NodeName = nodeName
		if _, err := cluster.Create(ctx, pod); err != nil {
			return err
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "q"}}
	quota.Spec.Hard = corev1.ResourceList{"limits.nvidia.com/gpumem": resource.MustParse("100000")}
	_, err = client.CoreV1().ResourceQuotas("team").Create(ctx, quota, metav1.CreateOptions{})
	return err
}
