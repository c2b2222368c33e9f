package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// Misspelt warns of annotations and resources of a pod that are nearly those which phasegpu reads: they have the same
// domain and first letters. Kubernetes accepts any annotation and any extended resource. There is one warning for each,
// those of annotations first.
func Misspelt(pod *corev1.Pod) []string {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if ours(key) {
			continue
		}
		known := annotations()
		if similar := resembling(key, slices.Values(known[:])); len(similar) > 0 {
			warnings = append(warnings, fmt.Sprintf("annotation %s is none of phasegpu's and changes nothing: is it "+
				"misspelt? Known are %s", key, strings.Join(similar, ", ")))
		}
	}
	for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		c := Container(&pod.Spec, i)
		var others []corev1.ResourceName
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name := range list {
				_, kind := classify.Resource(name)
				if kind == families.Other && strings.Contains(string(name), "/") && !slices.Contains(others, name) {
					others = append(others, name)
				}
			}
		}
		slices.Sort(others)
		for _, name := range others {
			if similar := resembling(string(name), resources); len(similar) > 0 {
				warnings = append(warnings, fmt.Sprintf("container %s: resource %s is none of phasegpu's and is left "+
					"to others: is it misspelt? Known are %s", c.Name, name, strings.Join(similar, ", ")))
			}
		}
	}
	return warnings
}

// resources yields the names of all families' resources.
func resources(yield func(string) bool) {
	for _, f := range classify.Families() {
		for _, name := range f.Resources() {
			if !yield(string(name)) {
				return
			}
		}
	}
}

// resembling returns the known names with the same domain and first letters as a name, ignoring case.
func resembling(name string, known func(yield func(string) bool)) []string {
	const letters = 3
	var similar []string
	for k := range known {
		begin := strings.Index(k, "/") + 1 + letters
		if len(name) >= begin && strings.EqualFold(name[:begin], k[:begin]) {
			similar = append(similar, k)
		}
	}
	return similar
}
