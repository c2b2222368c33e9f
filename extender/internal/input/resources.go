package input

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// misspelt warns of resources that are almost a family's: of its domain, and the first letters the
// same. Nothing else would, because to Kubernetes they are just another extended resource.
func (r *reader) misspelt(source Source, pod *corev1.Pod) {
	for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		c := kube.Container(&pod.Spec, i)
		var names []corev1.ResourceName
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name := range list {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if similar := almost(name); len(similar) > 0 {
				r.warn(source, fmt.Errorf("container %s: resource %s is none of phasegpu's and is left to others: is it misspelt? Known are %s",
					c.Name, name, strings.Join(similar, ", ")))
			}
		}
	}
}

// almost returns the families' resources that a resource resembles, none when it is one of them.
func almost(name corev1.ResourceName) []string {
	const letters = 3
	if _, kind := classify.Resource(name); kind != families.Other {
		return nil
	}
	var similar []string
	for _, f := range classify.Families() {
		for _, known := range f.Resources() {
			domain := strings.Index(string(known), "/") + 1
			if prefix := string(known[:domain+letters]); strings.HasPrefix(strings.ToLower(string(name)), strings.ToLower(prefix)) {
				similar = append(similar, string(known))
			}
		}
	}
	return similar
}
