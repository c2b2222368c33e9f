package fit

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// native is, by node and resource, what kube-scheduler counts as used of the resources that kubelet
// advertises. Kubelet never takes ids back from a running pod, so a pod counts with its peak for its
// whole life.
type native map[string]map[corev1.ResourceName]int64

func (n native) add(node string, pod *corev1.Pod) {
	for _, name := range advertised() {
		if peak := peakOf(pod, name); peak > 0 {
			if n[node] == nil {
				n[node] = map[corev1.ResourceName]int64{}
			}
			n[node][name] += peak
		}
	}
}

// Count is an advertised resource of which a node has too little left for a pod.
type Count struct {
	Resource                 corev1.ResourceName
	Asked, Held, Allocatable int64
}

// lacks says of which advertised resource a node has too little left for a pod, nil when of none. gone are
// pods that do not count, although they are on the node. kube-scheduler counts nominated ones as on it, too.
func (c *Cluster) lacks(node *corev1.Node, pod *corev1.Pod, gone ...*corev1.Pod) *Count {
	for _, name := range advertised() {
		asked := peakOf(pod, name)
		if asked == 0 {
			continue
		}
		held := c.held[node.Name][name]
		for _, p := range c.kept.ahead.On(node.Name) {
			held += peakOf(c.kept.pods[p.UID], name)
		}
		for _, g := range gone {
			held -= peakOf(g, name)
		}
		if q := node.Status.Allocatable[name]; asked > q.Value()-held {
			return &Count{name, asked, held, q.Value()}
		}
	}
	return nil
}

func (c *Count) refusal(node string) *Refusal {
	numbers := fmt.Sprintf(
		": asked %d, held %d of %d (kubelet keeps what a pod's largest phase takes until the pod ends)",
		c.Asked, c.Held, c.Allocatable)
	r := plain(node, "Insufficient "+string(c.Resource), numbers)
	r.Count = c
	return r
}

// Held returns what kubelet keeps for a pod of an advertised resource until it ends.
func Held(pod *corev1.Pod, name corev1.ResourceName) int64 { return peakOf(pod, name) }

// advertised returns the resources that kubelet advertises, of all families.
func advertised() []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, f := range classify.Families() {
		names = append(names, f.Advertised...)
	}
	return names
}

// peakOf returns kube-scheduler's own request of a pod for a resource: the fold over all phases of the
// raw quantities.
func peakOf(pod *corev1.Pod, name corev1.ResourceName) int64 {
	peak, err := kube.Classes(&pod.Spec).Fold(0, func(position int) device.Amount {
		return device.Amount{Slots: quantityOf(kube.Container(&pod.Spec, position), name)}
	})
	if err != nil {
		return 0 // beyond any node; its own quantities have been refused already
	}
	return peak.Slots
}

// quantityOf returns what a container asks for of a resource. A missing count is what admission makes
// of it.
func quantityOf(c *corev1.Container, name corev1.ResourceName) int64 {
	if q, ok := c.Resources.Limits[name]; ok {
		return max(q.Value(), 0)
	}
	if word, kind := classify.Resource(name); kind == families.Count {
		if r, err := classify.Request(&c.Resources); err == nil && r.Family == word {
			return int64(r.Devices)
		}
	}
	return 0
}

// withAllocatable returns the node as it would be with its device plugin running, when its manifest
// says nothing at all of what is allocatable, and an error that says so.
func withAllocatable(node *corev1.Node) (*corev1.Node, error) {
	if len(node.Status.Allocatable) > 0 {
		return node, nil
	}
	node = node.DeepCopy()
	node.Status.Allocatable = maps.Clone(node.Status.Capacity)
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = corev1.ResourceList{}
	}
	slots := map[string]int64{}
	for _, d := range kube.Node(node).Devices {
		slots[d.Family] += d.Capacity.Slots
	}
	assumed := ""
	for _, f := range classify.Families() {
		for _, name := range f.Advertised {
			if _, kind := classify.Resource(name); kind == families.Count && slots[f.Word] > 0 {
				node.Status.Allocatable[name] = *resource.NewQuantity(slots[f.Word], resource.DecimalSI)
				assumed += fmt.Sprintf(" %s: %d", name, slots[f.Word])
			}
		}
	}
	if assumed == "" {
		return node, nil
	}
	return node, fmt.Errorf("status.allocatable is missing: taken to be what the inventory lists,%s", assumed)
}

// unschedulable says why kube-scheduler itself would not consider a node for a pod, "" when it would:
// the taints, the cordon and the node affinity. CPU, memory and whatever else it weighs are left out.
func unschedulable(node *corev1.Node, pod *corev1.Pod) string {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		taints = append([]corev1.Taint{cordon}, taints...)
	}
	repels := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}
	tolerations := pod.Spec.Tolerations
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, repels, false)
	if found {
		if taint.Key == corev1.TaintNodeUnschedulable {
			return "closed to new pods (spec.unschedulable)"
		}
		return "the pod does not tolerate the node's taint " + taint.ToString()
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	switch {
	case err != nil:
		return fmt.Sprintf("the pod's node affinity cannot be read: %v", err)
	case !matches:
		return "the pod's node selector or affinity excludes the node"
	}
	return ""
}
