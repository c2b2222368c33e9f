package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	anyNode  = -1 // policy none
	someNode = -2 // policy single-numa-node, and the container's CPUs may be on any
)

// Admit allocates for all containers of a pod in order, init containers first. near is the NUMA node of a container's
// own CPUs (policy single-numa-node); nil is policy none. The first error rejects the pod.
func (k *Kubelet) Admit(ctx context.Context, pod *corev1.Pod, near map[string]int) error {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if err := k.AdmitContainer(ctx, pod, c.Name, near); err != nil {
			return err
		}
	}
	return nil
}

// AdmitContainer allocates for one container; the ones before it must have been.
func (k *Kubelet) AdmitContainer(ctx context.Context, pod *corev1.Pod, name string, near map[string]int) error {
	uid := string(pod.UID)
	if k.reuseFor != uid {
		k.reuseFor, k.reuse = uid, map[string]bool{}
	}
	c, init := container(pod, name)
	amount := c.Resources.Limits[corev1.ResourceName(k.resource)]
	if amount.Value() == 0 || k.Held(uid, name) != nil { // also after a restart
		return nil
	}
	node := anyNode
	if near != nil {
		node = someNode
	}
	if n, ok := near[name]; ok {
		node = n
	}
	k.mu.Lock()
	k.held = slices.DeleteFunc(k.held, func(h Held) bool { return k.gone[h.PodUID] })
	k.mu.Unlock()
	ids, err := k.choose(ctx, int(amount.Value()), node)
	if err != nil {
		return err
	}
	if err := k.allocate(ctx, uid, name, ids); err != nil {
		return err
	}
	always := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	for _, id := range ids {
		if init && !always {
			k.reuse[id] = true
		} else {
			delete(k.reuse, id)
		}
	}
	return nil
}

// align is the Topology Manager's decision for one container (policy single-numa-node, scope container): the first NUMA
// node that its CPUs allow, that has all ids which init containers left, and enough ids.
func (k *Kubelet) align(size, node int) (int, error) {
	if node == anyNode {
		return anyNode, nil
	}
	k.mu.Lock()
	nodes := map[int]bool{}
	for id := range k.devices {
		nodes[k.node(id)] = true
	}
	delete(nodes, anyNode)
	elsewhere := map[int]bool{} // nodes without some id that is left
	for id := range k.reuse {
		for n := range nodes {
			elsewhere[n] = elsewhere[n] || k.node(id) != n
		}
	}
	k.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		_, aligned := k.free(n)
		if (node == someNode || node == n) && !elsewhere[n] && len(k.reuse)+len(aligned) >= size {
			return n, nil
		}
	}
	return 0, errors.New("TopologyAffinityError: Resources cannot be allocated with Topology locality")
}

// node returns the NUMA node of an id, anyNode for none. The caller has the lock.
func (k *Kubelet) node(id string) int {
	if d := k.devices[id]; d != nil && d.Topology != nil {
		return int(d.Topology.Nodes[0].ID)
	}
	return anyNode
}

// choose finds the ids for a container: first those that init containers left, without asking the plugin if they are
// enough; then those of the NUMA node, asking if there is a choice; else any, always asking.
func (k *Kubelet) choose(ctx context.Context, size, node int) ([]string, error) {
	node, err := k.align(size, node)
	if err != nil {
		return nil, err
	}
	var chosen []string
	take := func(ids []string) bool {
		for _, id := range ids {
			if len(chosen) < size && !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		return len(chosen) == size
	}
	var reusable []string
	for id := range k.reuse { // in random order, as kubelet's
		reusable = append(reusable, id)
	}
	if take(reusable) {
		return chosen, nil
	}
	free, aligned := k.free(node)
	must := slices.Clone(chosen)
	needed := size - len(chosen)
	if len(free) < needed {
		return nil, fmt.Errorf("requested number of devices unavailable: %d of %d", needed, len(free))
	}
	ask := func(from []string) ([]string, error) {
		preferred, err := k.prefer(ctx, append(slices.Clone(from), must...), must, size)
		return slices.DeleteFunc(preferred, func(id string) bool { return !slices.Contains(from, id) }), err
	}
	if needed < len(aligned) {
		preferred, err := ask(aligned)
		if err != nil {
			return nil, err
		}
		_ = take(preferred) || take(aligned)
		return chosen, nil
	}
	if take(aligned) {
		return chosen, nil
	}
	preferred, err := ask(free)
	if err != nil {
		return nil, err
	}
	_ = take(preferred) || take(free)
	return chosen, nil
}

// free returns the healthy free ids, and those of them on a NUMA node (none for anyNode).
func (k *Kubelet) free(node int) (free, aligned []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, d := range k.devices {
		taken := slices.ContainsFunc(k.held, func(h Held) bool { return slices.Contains(h.IDs, id) })
		if taken || d.Health != pluginapi.Healthy {
			continue
		}
		free = append(free, id)
		if node != anyNode && k.node(id) == node {
			aligned = append(aligned, id)
		}
	}
	return free, aligned
}

// client returns the plugin.
func (k *Kubelet) client() (pluginapi.DevicePluginClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.plugin == nil {
		return nil, errors.New("no plugin is registered")
	}
	return k.plugin, nil
}

// note records a call for Calls. Ids appear as their NUMA nodes, because the choice among them is random.
func (k *Kubelet) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, fmt.Sprintf(format, args...))
}

// nodes writes ids as "2×n0 1×n1".
func (k *Kubelet) nodes(ids []string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	count := map[int]int{}
	for _, id := range ids {
		count[k.node(id)]++
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d×n%d", count[node], node))
	}
	return strings.Join(parts, " ")
}

func (k *Kubelet) prefer(ctx context.Context, available, must []string, size int) ([]string, error) {
	plugin, err := k.client()
	if err != nil {
		return nil, err
	}
	k.note("GPA available=[%s] must=[%s] size=%d", k.nodes(available), k.nodes(must), size)
	answer, err := plugin.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(size)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("calling GetPreferredAllocation: %w", err)
	}
	return answer.ContainerResponses[0].DeviceIDs, nil
}

func (k *Kubelet) allocate(ctx context.Context, uid, name string, ids []string) error {
	plugin, err := k.client()
	if err != nil {
		return err
	}
	k.note("Allocate [%s]", k.nodes(ids))
	answer, err := plugin.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return fmt.Errorf("calling Allocate: %w", err)
	}
	slices.Sort(ids)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, Held{PodUID: uid, Container: name, IDs: ids, Answer: answer.ContainerResponses[0]})
	return k.write()
}

// StartContainer asks the plugin whether a container may start, as kubelet does before every start.
func (k *Kubelet) StartContainer(ctx context.Context, uid, name string) error {
	held := k.Held(uid, name)
	if held == nil {
		return fmt.Errorf("no devices found allocated for container %s", name)
	}
	plugin, err := k.client()
	if err != nil {
		return err
	}
	_, err = plugin.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: held.IDs})
	return err
}

// container finds a container by name, and whether it is an init container.
func container(pod *corev1.Pod, name string) (c *corev1.Container, init bool) {
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	return &all[i], i < len(pod.Spec.InitContainers)
}
