package families

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
)

// ManagedResource is an entry of the scheduler extender's managedResources.
type ManagedResource struct {
	Name corev1.ResourceName
	// IgnoredByScheduler is set for resources that kubelet does not advertise: kube-scheduler would find no node for
	// them.
	IgnoredByScheduler bool
}

// ManagedResources returns the resources of all families, in the order of Family.Resources.
func ManagedResources(all []Family) []ManagedResource {
	var managed []ManagedResource
	for i := range all {
		for _, name := range all[i].Resources() {
			managed = append(managed, ManagedResource{name, !all[i].Advertises(name)})
		}
	}
	return managed
}

// ProtectedAnnotations returns the pod annotations that only phasegpu's own service accounts may write: the families'
// allocations and what bind writes with them.
func ProtectedAnnotations(all []Family) []string {
	var keys []string
	for i := range all {
		keys = append(keys, all[i].PodAnnotation)
	}
	return append(keys, wire.NodeAnnotation, wire.TimeAnnotation)
}

// Advertises reports whether kubelet advertises the resource.
func (f *Family) Advertises(name corev1.ResourceName) bool {
	return slices.Contains(f.Advertised, name)
}
