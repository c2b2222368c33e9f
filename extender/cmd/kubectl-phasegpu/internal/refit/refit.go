// Package refit computes what the refit service would answer if kubelet allowed a container certain devices only,
// and what each of them would hold then. It decides as the service does, without asking it.
package refit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
	decision "github.com/phasegpu/phasegpu/gen/refit"
)

// Report is the JSON document. Either answer or refusal is null.
type Report struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Position  int    `json:"position"`
	Node      string `json:"node"`
	// Devices is the container's UUIDs as recorded, in the record's order.
	Devices []string          `json:"devices"`
	Allowed []string          `json:"allowed"`
	Answer  *decision.Answer  `json:"answer"` // moved tells whether the service would write it
	Refusal *decision.Refusal `json:"refusal"`
	// Candidates is the allowed devices that the node has, in its order; none when the node's books or the
	// pod's record cannot be read.
	Candidates []Candidate `json:"candidates"`
}

// Candidate is an allowed device. Its peak is the most that the pod's remaining phases could use of it with the
// container there, which is no sum of containers that are never alive together.
type Candidate struct {
	UUID     string        `json:"uuid"`
	Recorded bool          `json:"recorded"` // the container has it already
	Capacity report.Amount `json:"capacity"`
	Others   report.Amount `json:"others"` // what other pods' remaining phases can use
	Peak     report.Amount `json:"peak"`
}

// Decide decides about a pod's container, with the pod's node (nil when there is none) and all pods on it. The error
// is about the question.
func Decide(
	pod *corev1.Pod, node *corev1.Node, pods []corev1.Pod, container string, allowed []string, d decision.Defaults,
) (*Report, error) {
	position := slices.IndexFunc(containers(pod), func(name string) bool { return name == container })
	if position < 0 {
		return nil, fmt.Errorf("pod %s/%s has no container %q: it has %q", pod.Namespace, pod.Name, container,
			containers(pod))
	}
	asked := family(pod, position)
	switch {
	case asked == "":
		return nil, fmt.Errorf("container %s of pod %s/%s asks for no device that can be read: there is nothing to "+
			"move",
			container, pod.Namespace, pod.Name)
	case pod.Spec.NodeName == "":
		return nil, fmt.Errorf("pod %s/%s has no node yet: see `kubectl phasegpu fit` for where it would go",
			pod.Namespace, pod.Name)
	}
	r := &Report{
		Namespace: pod.Namespace, Pod: pod.Name, Container: container, Position: position, Node: pod.Spec.NodeName,
		Devices: []string{}, Allowed: allowed, Candidates: []Candidate{},
	}
	question := &decision.Request{
		Pod:       decision.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Node:      pod.Spec.NodeName,
		Container: decision.Container{Name: container, Position: position},
		Family:    asked,
		Allowed:   allowed,
	}
	if allocation, err := kube.Allocation(pod); err == nil {
		for _, share := range allocation[position] {
			r.Devices = append(r.Devices, share.UUID)
		}
	}
	decided, refusal := decision.Decide(pod, node, pods, question, d)
	if r.Refusal = refusal; refusal == nil {
		r.Answer = &decision.Answer{Devices: decided.Devices(position), Moved: decided.Changed}
	}
	candidates, _ := decision.Candidates(pod, node, pods, question, d) // what refuses these, refuses the move
	for _, c := range candidates {
		r.Candidates = append(r.Candidates, Candidate{
			c.UUID, c.Has, report.Amount(c.Capacity), report.Amount(c.Others), report.Amount(c.Peak),
		})
	}
	return r, nil
}

// containers returns the names of a pod's containers by position.
func containers(pod *corev1.Pod) []string {
	var names []string
	for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		names = append(names, kube.Container(&pod.Spec, i).Name)
	}
	return names
}

// family returns the type word of what a container asks for. The device plugin asks with its own.
func family(pod *corev1.Pod, position int) string {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return ""
	}
	return requests[position].Family
}
