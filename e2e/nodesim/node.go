package nodesim

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// Node declares a simulated node. Only Name must be set.
type Node struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string   // over those that devices make, so that a test can spoil an inventory
	Devices     []device.Device     // of any families
	CPU         string              // allocatable; "64" when empty
	Memory      string              // allocatable; "256Gi" when empty
	Pods        int64               // allocatable; 110 when 0
	Extended    corev1.ResourceList // allocatable: extended resources of others' device plugins
}

// GPUs returns n healthy NVIDIA devices with 10 replicas, the given memory and 100 % cores each, named
// "GPU-<prefix>-<index>".
func GPUs(prefix string, n int, memoryMiB int64) []device.Device {
	devices := make([]device.Device, n)
	for i := range devices {
		devices[i] = device.Device{
			UUID: fmt.Sprintf("GPU-%s-%d", prefix, i), Index: i, Family: "NVIDIA", Model: "NVIDIA-Simulated",
			Capacity: device.Amount{Slots: 10, MemoryMiB: memoryMiB, Cores: device.WholeCores},
			Healthy:  true,
		}
	}
	return devices
}

// object returns the Node as its kubelet and device plugins would have registered it.
func (n *Node) object() (*corev1.Node, error) {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	maps.Copy(o.Labels, n.Labels)
	annotations, err := n.annotations()
	if err != nil {
		return nil, err
	}
	o.Annotations = annotations
	if o.Status.Allocatable, o.Status.Capacity, err = n.resources(); err != nil {
		return nil, err
	}
	now := metav1.Now()
	o.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "simulated",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	o.Status.NodeInfo.KubeletVersion = "v1.37.2-simulated"
	return o, nil
}

// annotations returns the inventory of each family and the cordoned devices.
func (n *Node) annotations() (map[string]string, error) {
	annotations := map[string]string{}
	var cordoned []string
	byFamily := map[string][]device.Device{}
	for _, d := range n.Devices {
		byFamily[d.Family] = append(byFamily[d.Family], d)
		if d.Cordoned {
			cordoned = append(cordoned, d.UUID)
		}
	}
	for word, devices := range byFamily {
		family := classify.Family(word)
		if family == nil {
			return nil, fmt.Errorf("node %s: device %s is of family %q, which is not declared in gen/families",
				n.Name, devices[0].UUID, word)
		}
		if family.NodeAnnotation == "" {
			continue // its inventory is the node's capacity
		}
		text, err := wire.EncodeInventory(devices)
		if err != nil {
			return nil, fmt.Errorf("node %s, family %s: %w", n.Name, word, err)
		}
		annotations[family.NodeAnnotation] = text
	}
	if len(cordoned) > 0 {
		annotations[wire.CordonAnnotation] = strings.Join(cordoned, ",")
	}
	maps.Copy(annotations, n.Annotations)
	return annotations, nil
}

// resources returns what the node can give to pods and what it has.
func (n *Node) resources() (allocatable, capacity corev1.ResourceList, err error) {
	allocatable = corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{
		corev1.ResourceCPU:    cmp.Or(n.CPU, "64"),
		corev1.ResourceMemory: cmp.Or(n.Memory, "256Gi"),
		corev1.ResourcePods:   fmt.Sprint(cmp.Or(n.Pods, 110)),
	} {
		if allocatable[name], err = resource.ParseQuantity(text); err != nil {
			return nil, nil, fmt.Errorf("node %s: %s %q: %w", n.Name, name, text, err)
		}
	}
	maps.Copy(allocatable, n.Extended)
	capacity = maps.Clone(allocatable)
	for _, family := range classify.Families() {
		for _, name := range family.Advertised {
			total, healthy := n.advertised(&family, name)
			if total > 0 {
				capacity[name] = *resource.NewQuantity(total, resource.DecimalSI)
				allocatable[name] = *resource.NewQuantity(healthy, resource.DecimalSI)
			}
		}
	}
	return allocatable, capacity, nil
}

// advertised returns how much of a resource the family's device plugin offers, in all and on healthy
// devices. It offers nothing of a device in MIG mode.
func (n *Node) advertised(family *families.Family, name corev1.ResourceName) (total, healthy int64) {
	for _, d := range n.Devices {
		if d.Family != family.Word || d.Mode == device.MIG {
			continue
		}
		amount := d.Capacity.Slots
		switch name {
		case family.Memory:
			amount = d.Capacity.MemoryMiB / family.MemoryBlockMiB
		case family.Cores:
			amount = d.Capacity.Cores
		}
		total += amount
		if d.Healthy {
			healthy += amount
		}
	}
	return total, healthy
}
