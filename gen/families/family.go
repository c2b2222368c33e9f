package families

import corev1 "k8s.io/api/core/v1"

// Family is a declaration as a value.
type Family struct {
	Word           string                // type word in allocations, e.g. "NVIDIA"
	Count          corev1.ResourceName   // number of devices
	Memory         corev1.ResourceName   // per device, in blocks
	MemoryPercent  corev1.ResourceName   // "" when the family has none
	Cores          corev1.ResourceName   // percent per device
	MemoryBlockMiB int64                 // MiB of one unit of Memory, in requests, quotas and node capacity
	DefaultCores   int64                 // when Cores is absent
	NodeAnnotation string                // inventory, in MiB; "" when it is read from the node's capacity
	PodAnnotation  string                // allocation
	Advertised     []corev1.ResourceName // by kubelet; these stay visible to kube-scheduler
	Refit          bool                  // NUMA refit is supported
}

// Resources returns the family's resource names: count, memory, percent (if any), cores.
func (f *Family) Resources() []corev1.ResourceName {
	names := []corev1.ResourceName{f.Count, f.Memory}
	if f.MemoryPercent != "" {
		names = append(names, f.MemoryPercent)
	}
	return append(names, f.Cores)
}

// Kind is what a resource of a family counts.
type Kind uint8

// The kinds of resource. Other is every resource that belongs to no family.
const (
	Other Kind = iota
	Count
	Memory        // in blocks, per device
	MemoryPercent // of each device's own memory
	Cores         // percent per device
)
