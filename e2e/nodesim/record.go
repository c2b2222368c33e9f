package nodesim

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/gen/classify"
)

// Admission is one pod looked at by a kubelet.
type Admission struct {
	Pod types.NamespacedName
	UID types.UID
	At  time.Time
	// Allocation is the pod's allocation annotations as the kubelet saw them: what the device plugin would
	// have given to its containers. Empty without any.
	Allocation map[string]string
	// Rejected is the reason for which the pod was rejected, "" when it was admitted.
	Rejected string
}

// Overlap is a moment at which two pods of one node were bound with unlike allocations and not yet
// reported by kubelet, so that an Allocate call could have been for either.
type Overlap struct {
	Node          string
	First, Second types.NamespacedName
}

// records is what was seen, in the order of the API server's watch and of the kubelets' admissions.
type records struct {
	mu         sync.Mutex
	admissions map[string][]Admission            // by node
	between    map[string]map[types.UID]waitedOn // by node: bound with an allocation and not reported
	overlaps   []Overlap
}

type waitedOn struct {
	name       types.NamespacedName
	allocation map[string]string
}

func (r *records) admitted(node string, pod *corev1.Pod, rejected *rejection) {
	a := Admission{Pod: nameOf(pod), UID: pod.UID, At: time.Now(), Allocation: allocation(pod)}
	if rejected != nil {
		a.Rejected = rejected.reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admissions[node] = append(r.admissions[node], a)
}

// observed takes each state of a bound pod, in order.
func (r *records) observed(pod *corev1.Pod) {
	node, mine := pod.Spec.NodeName, allocation(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if pod.Status.StartTime != nil || ended(pod.Status.Phase) || len(mine) == 0 {
		delete(r.between[node], pod.UID)
		return
	}
	if _, known := r.between[node][pod.UID]; !known {
		for _, other := range r.between[node] {
			if !maps.Equal(other.allocation, mine) {
				r.overlaps = append(r.overlaps, Overlap{node, other.name, nameOf(pod)})
			}
		}
	}
	if r.between[node] == nil {
		r.between[node] = map[types.UID]waitedOn{}
	}
	r.between[node][pod.UID] = waitedOn{nameOf(pod), mine}
}

// listed forgets the pods that were between before a list is taken: during the gap of the watch one of them may have
// been reported before another was bound.
func (r *records) listed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.between)
}

func (r *records) gone(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.between[pod.Spec.NodeName], pod.UID)
}

// Admissions returns the pods that the node's kubelet looked at, in order.
func (s *Simulator) Admissions(node string) []Admission {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return slices.Clone(s.records.admissions[node])
}

// Overlaps returns all overlaps so far. A working gate leaves none.
func (s *Simulator) Overlaps() []Overlap {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return slices.Clone(s.records.overlaps)
}

// allocation returns the annotations that record what the pod holds.
func allocation(pod *corev1.Pod) map[string]string {
	found := map[string]string{}
	for key, text := range pod.Annotations {
		if classify.Allocation(key) != "" {
			found[key] = text
		}
	}
	return found
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }
