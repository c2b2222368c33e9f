package kind

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Recorded returns what the environment of a container must say, by its pod's record, with isolation
// hami-core: which devices, how much memory on each in the order of the node's inventory, how much compute.
// devices are the node's, in that order. It is empty for a container without devices.
func Recorded(shares []device.Share, devices []device.Device) map[string]string {
	if len(shares) == 0 {
		return map[string]string{}
	}
	place := func(share device.Share) int {
		i := slices.IndexFunc(devices, func(d device.Device) bool { return d.UUID == share.UUID })
		if i < 0 {
			return len(devices) // listed no more
		}
		return i
	}
	sorted := slices.SortedStableFunc(slices.Values(shares),
		func(x, y device.Share) int { return cmp.Compare(place(x), place(y)) })
	want := map[string]string{"CUDA_DEVICE_SM_LIMIT": fmt.Sprint(sorted[0].Amount.Cores)} // the same on all
	var visible []string
	for i, share := range sorted {
		want[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", i)] = fmt.Sprintf("%dm", share.Amount.MemoryMiB)
		visible = append(visible, share.UUID)
	}
	want["NVIDIA_VISIBLE_DEVICES"] = strings.Join(visible, ",")
	return want
}

// Granted returns the part of a container's environment that Recorded is about.
func Granted(environment map[string]string) map[string]string {
	granted := map[string]string{}
	for name, value := range environment {
		if name == "NVIDIA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_SM_LIMIT" ||
			strings.HasPrefix(name, "CUDA_DEVICE_MEMORY_LIMIT") {
			granted[name] = value
		}
	}
	return granted
}

// CheckRecord compares the environment of a bound pod's containers that run or have ended with its record, and
// returns an error that names each container that sees something else. Nil containers are all.
func (c *Cluster) CheckRecord(ctx context.Context, pod *corev1.Pod, containers ...string) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	devices := kube.Node(node).Devices
	allocation, err := kube.Allocation(pod)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var wrong []string
	for position, shares := range allocation {
		name := kube.Container(&pod.Spec, position).Name
		if len(containers) > 0 && !slices.Contains(containers, name) {
			continue
		}
		environment, err := c.Environment(ctx, pod, name)
		if err != nil {
			return err
		}
		if want, got := Recorded(shares, devices), Granted(environment); !maps.Equal(want, got) {
			wrong = append(wrong, fmt.Sprintf("container %s sees %v, its record says %v", name, got, want))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("pod %s/%s: %s", pod.Namespace, pod.Name, strings.Join(wrong, "; "))
	}
	return nil
}
