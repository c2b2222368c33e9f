package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// accountant charges a pod the sum of its containers for as long as it lives, for comparison with phasegpu. It counts
// memory in MiB per family, of all devices together or of the quota.
type accountant struct {
	devices map[string]int64            // by family
	quotas  map[string]int64            // by family
	held    map[string]map[string]int64 // by pod and family
}

func (a *accountant) node(n nodesim.Node) {
	if a.devices == nil {
		a.devices = map[string]int64{}
	}
	for _, d := range n.Devices {
		a.devices[d.Family] += d.Capacity.MemoryMiB
	}
}

func (a *accountant) quota(hard map[corev1.ResourceName]string) {
	a.quotas = map[string]int64{}
	for key, text := range hard {
		_, name, _ := strings.Cut(string(key), ".")
		word, kind := classify.Resource(corev1.ResourceName(name))
		var limit int64
		if _, err := fmt.Sscan(text, &limit); kind != families.Memory || err != nil {
			continue
		}
		limit *= classify.Family(word).MemoryBlockMiB
		if least, ok := a.quotas[word]; !ok || limit < least {
			a.quotas[word] = limit
		}
	}
}

// asked returns what the accountant answers to a pod, "" when the pod asks for memory without a number.
func (a *accountant) asked(pod *corev1.Pod) string {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return ""
	}
	sums, terms := map[string]int64{}, map[string][]string{}
	for _, r := range requests {
		if !r.MemoryKnown() {
			return ""
		}
		if r.Devices > 0 {
			sums[r.Family] += r.MemoryMiB * int64(r.Devices)
			terms[r.Family] = append(terms[r.Family], term(r))
		}
	}
	var all []string
	for _, family := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, a.verdict(family, sums[family], terms[family]))
	}
	return strings.Join(all, "; ")
}

func term(r device.Request) string {
	if r.Devices == 1 {
		return fmt.Sprint(r.MemoryMiB)
	}
	return fmt.Sprintf("%d × %d", r.Devices, r.MemoryMiB)
}

func (a *accountant) verdict(family string, sum int64, terms []string) string {
	held := int64(0)
	for _, sums := range a.held {
		held += sums[family]
	}
	if held > 0 {
		terms = append(terms, fmt.Sprintf("%d for the pods that run", held))
	}
	text := strings.Join(terms, " + ")
	if len(terms) > 1 {
		text += fmt.Sprintf(" = %d", held+sum)
	}
	limit, where := a.devices[family], "the devices have"
	if quota, ok := a.quotas[family]; ok {
		limit, where = quota, "the quota allows"
	}
	says := "accepted"
	if held+sum > limit {
		says = "REFUSED"
	}
	return fmt.Sprintf("%s MiB, %s %d: %s", text, where, limit, says)
}

// scheduled has the accountant charge a pod.
func (a *accountant) scheduled(pod *corev1.Pod) {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return
	}
	if a.held == nil {
		a.held = map[string]map[string]int64{}
	}
	sums := map[string]int64{}
	for _, r := range requests {
		sums[r.Family] += r.MemoryMiB * int64(r.Devices)
	}
	a.held[pod.Name] = sums
}

func (a *accountant) gone(pod *corev1.Pod) { delete(a.held, pod.Name) }
