// Package kube turns Kubernetes objects into the values of core: pods, statuses, inventories, quotas.
package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
)

// Classes returns the classes of a pod's containers in position order.
func Classes(spec *corev1.PodSpec) phase.Pod { panic("not written yet") }

// Container returns the container at a position.
func Container(spec *corev1.PodSpec, position int) *corev1.Container { panic("not written yet") }

// Asks reports whether any container of the pod asks for a device of any family.
func Asks(spec *corev1.PodSpec) bool { panic("not written yet") }

// Requests returns what each container asks for, by position. The error names the container.
func Requests(spec *corev1.PodSpec) ([]device.Request, error) { panic("not written yet") }

// Status reads what a pod's status says of its progress, containers by name.
func Status(pod *corev1.Pod) phase.Status { panic("not written yet") }

// Release returns the pod's release policy: its annotation, or byDefault.
func Release(pod *corev1.Pod, byDefault phase.Release) (phase.Release, error) {
	panic("not written yet")
}

// Allocation reads what every container of the pod holds, over all families' annotations.
// A pod without such an annotation has an empty allocation.
func Allocation(pod *corev1.Pod) (device.Allocation, error) { panic("not written yet") }

// AllocationAnnotations returns the annotations that record an allocation, one per family in it.
func AllocationAnnotations(a device.Allocation) map[string]string { panic("not written yet") }

// LedgerPod returns the truth about a pod for the books. What cannot be read is in Unreadable.
func LedgerPod(pod *corev1.Pod, byDefault phase.Release) ledger.Pod { panic("not written yet") }

// PlacementPod returns the pod as placement sees it: requests, selectors and policies from its
// annotations. Errors name the annotation and the accepted values, or the container and its resource.
func PlacementPod(pod *corev1.Pod, node, dev placement.Policy) (*placement.Pod, error) {
	panic("not written yet")
}

// Node returns the truth about a node's devices. A device is healthy only while kubelet reports its
// family's advertised resources as allocatable.
func Node(node *corev1.Node) ledger.Node { panic("not written yet") }

// Quota returns the limits that a ResourceQuota sets on device families; one without any has no Limits.
// Limits that can be read are in the result also when the error names one that cannot.
func Quota(q *corev1.ResourceQuota) (ledger.Quota, error) { panic("not written yet") }

// Charges returns, by family, the maximum over the pod's phases of the phase's total of what its
// containers ask for (MiB × devices, percent × devices). known is false for a family whose memory only
// a device can settle (percentage, whole card): its MemoryMiB then leaves those containers out.
func Charges(classes phase.Pod, requests []device.Request) (charges map[string]ledger.Charge, known map[string]bool, err error) {
	panic("not written yet")
}
