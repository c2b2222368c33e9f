// Package refittest makes the pods, nodes and requests of tests about refit.
package refittest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// Names of the objects.
const (
	Record    = "hami.io/vgpu-devices-allocated"
	Alignment = "hami.io/numa-alignment"
	Inventory = "hami.io/node-nvidia-register"
	NodeName  = "n1"
)

// Container is a container of a pod: its class (i, s or a for init, sidecar or app), its entry in the record, and its
// limits. Nil limits are made from the entry: its number of devices, with the first one's memory and cores.
type Container struct {
	Class  rune
	Entry  string
	Limits corev1.ResourceList
}

// Share is one device in an entry, with memory in MiB.
func Share(uuid string, memory int) string { return fmt.Sprintf("%s,NVIDIA,%d,0:", uuid, memory) }

// Limits returns limits from names and quantities in turn.
func Limits(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// Pod returns a pod in the gate of NodeName. Its UID is its name, and containers are called by class and position:
// i0, s1, a2.
func Pod(name string, containers ...Container) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	p.Spec.NodeName = NodeName
	p.Status.Phase = corev1.PodPending
	var record strings.Builder
	for i, c := range containers {
		record.WriteString(c.Entry + ";")
		spec := corev1.Container{Name: fmt.Sprintf("%c%d", c.Class, i)}
		if spec.Resources.Limits = c.Limits; c.Limits == nil && c.Entry != "" {
			share := strings.Split(strings.TrimSuffix(c.Entry, ":"), ",")
			devices := fmt.Sprint(strings.Count(c.Entry, ":"))
			spec.Resources.Limits = Limits("nvidia.com/gpu", devices, "nvidia.com/gpumem", share[2])
			if cores, _, _ := strings.Cut(share[3], ":"); cores != "0" {
				spec.Resources.Limits["nvidia.com/gpucores"] = resource.MustParse(cores)
			}
		}
		if c.Class == 'a' {
			p.Spec.Containers = append(p.Spec.Containers, spec)
			continue
		}
		if c.Class == 's' {
			spec.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, spec)
	}
	p.Annotations = map[string]string{Record: record.String()}
	return p
}

// Annotated sets an annotation of the pod and returns it; an empty value removes the annotation.
func Annotated(p *corev1.Pod, key, value string) *corev1.Pod {
	if p.Annotations[key] = value; value == "" {
		delete(p.Annotations, key)
	}
	return p
}

// Started returns the pod with kubelet's first report.
func Started(p *corev1.Pod) *corev1.Pod {
	p.Status.StartTime = new(metav1.Unix(1_700_000_000, 0))
	p.Status.Phase = corev1.PodRunning
	return p
}

// Card is one device of an inventory, with memory in MiB and more fields in JSON.
func Card(uuid string, memory, count int, more string) string {
	return fmt.Sprintf(`{"id":%q,"count":%d,"devmem":%d,"devcore":100,"type":"A100","health":true%s}`,
		uuid, count, memory, more)
}

// Node returns a node with these devices.
func Node(cards ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, Annotations: map[string]string{
		Inventory: "[" + strings.Join(cards, ",") + "]",
	}}}
	n.Status.Allocatable = Limits("nvidia.com/gpu", "20")
	return n
}

// Request asks that the pod's container at a position hold allowed devices only.
func Request(p *corev1.Pod, position int, allowed ...string) *refit.Request {
	return &refit.Request{
		Pod: refit.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, Node: NodeName,
		Container: refit.Container{Name: kube.Container(&p.Spec, position).Name, Position: position},
		Family:    "NVIDIA", Allowed: allowed,
	}
}

// Reason returns a refusal's reason, "" for none.
func Reason(r *refit.Refusal) refit.Reason {
	if r == nil {
		return ""
	}
	return r.Reason
}
