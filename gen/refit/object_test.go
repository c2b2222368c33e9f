package refit_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/gen/refit"
)

const (
	record = "hami.io/vgpu-devices-allocated"
	list   = "hami.io/node-nvidia-register"
	gib    = 1024
)

// limits returns what a container asks for, from names and quantities in turn.
func limits(pairs ...string) corev1.ResourceRequirements {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return corev1.ResourceRequirements{Limits: l, Requests: l}
}

// gpu asks for n devices with GiB of memory each.
func gpu(n, memory int) corev1.ResourceRequirements {
	return limits("nvidia.com/gpu", fmt.Sprint(n), "nvidia.com/gpumem", fmt.Sprint(memory*gib))
}

// held is one share of a record.
func held(uuid string, memory int) string { return fmt.Sprintf("%s,NVIDIA,%d,0:", uuid, memory*gib) }

// container is one of a pod's: i, s or a (init, sidecar, app), what it asks for and its entry.
type container struct {
	class rune
	asks  corev1.ResourceRequirements
	entry string
}

// pod returns a pod that kubelet of node "node" is about to allocate for. Containers are called by their
// class and number: i0, s1, a0.
func pod(name string, containers ...container) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			Annotations: map[string]string{"hami.io/numa-alignment": "strict"},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	var entries strings.Builder
	for _, c := range containers {
		entries.WriteString(c.entry + ";")
		spec := corev1.Container{Resources: c.asks}
		if c.class == 'a' {
			spec.Name = fmt.Sprintf("a%d", len(p.Spec.Containers))
			p.Spec.Containers = append(p.Spec.Containers, spec)
			continue
		}
		spec.Name = fmt.Sprintf("%c%d", c.class, len(p.Spec.InitContainers))
		if c.class == 's' {
			always := corev1.ContainerRestartPolicyAlways
			spec.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, spec)
	}
	p.Annotations[record] = entries.String()
	return p
}

// started returns the pod as kubelet shows it after admission.
func started(p *corev1.Pod) *corev1.Pod {
	now := metav1.Unix(1_700_000_000, 0)
	p.Status.StartTime = &now
	p.Status.Phase = corev1.PodRunning
	return p
}

// card is one of a node's devices in its inventory.
func card(uuid string, memory, count int, more string) string {
	return fmt.Sprintf(`{"id":%q,"count":%d,"devmem":%d,"devcore":100,"type":"A100","health":true%s}`, uuid, count, memory*gib, more)
}

// node returns a node with these devices.
func node(cards ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{list: "[" + strings.Join(cards, ",") + "]"}}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}
	return n
}

// two is a node with GPU-a and GPU-b of 40 GiB.
func two() *corev1.Node { return node(card("GPU-a", 40, 10, ""), card("GPU-b", 40, 10, "")) }

// ask is the question whether the pod's container at a position may hold the allowed devices.
func ask(p *corev1.Pod, position int, allowed ...string) *refit.Request {
	all := append(append([]corev1.Container{}, p.Spec.InitContainers...), p.Spec.Containers...)
	return &refit.Request{
		Pod:       refit.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		Node:      "node",
		Container: refit.Container{Name: all[position].Name, Position: position},
		Family:    "NVIDIA",
		Allowed:   allowed,
	}
}
