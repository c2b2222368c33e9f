package simulation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// object is a pod in one of its versions, never changed.
type object struct {
	version uint64
	pod     *corev1.Pod // nil when there is none of that name
	life    life        // what its status says
	charges             // what that comes to
}

func (o object) uid() string    { return string(o.get().UID) }
func (o object) node() string   { return o.get().Spec.NodeName }
func (o object) record() string { return o.get().Annotations[record] }

// get returns the pod, an empty one if there is none.
func (o object) get() *corev1.Pod {
	if o.pod == nil {
		return &corev1.Pod{}
	}
	return o.pod
}

// inGate reports whether kubelet is yet to report on a bound pod that has a record.
func (o object) inGate() bool {
	if o.node() == "" || o.life.started || o.life.ended {
		return false
	}
	_, recorded := o.pod.Annotations[record]
	return recorded
}

// server is an API server that forgets nothing.
type server struct {
	version uint64
	names   []string            // of pods that there were, in order of their first creation
	pods    map[string][]object // all versions by name, deletions included
}

// now returns a pod as it is.
func (s *server) now(name string) object {
	return s.at(name, s.version)
}

// at returns a pod as it was when the server was at a version.
func (s *server) at(name string, version uint64) object {
	for _, o := range slices.Backward(s.pods[name]) {
		if o.version <= version {
			return o
		}
	}
	return object{}
}

// on returns the pods of a node when the server was at a version.
func (s *server) on(node string, version uint64) []object {
	var all []object
	for _, name := range s.names {
		if o := s.at(name, version); o.node() == node {
			all = append(all, o)
		}
	}
	return all
}

// store makes a pod, which it takes over, the newest version; nil deletes it.
func (s *server) store(name string, pod *corev1.Pod, l life) object {
	s.version++
	if s.pods[name] == nil {
		s.names = append(s.names, name)
	}
	o := object{version: s.version, pod: pod, life: l}
	if pod != nil {
		pod.ResourceVersion = fmt.Sprint(s.version)
		o = o.charged()
	}
	s.pods[name] = append(s.pods[name], o)
	return o
}

// annotated returns a copy of a pod with an annotation, or without it when the value is empty.
func annotated(pod *corev1.Pod, key, value string) *corev1.Pod {
	p := *pod
	p.Annotations = maps.Clone(pod.Annotations)
	return rt.Annotated(&p, key, value)
}

// instant is the time at which the server was at a version.
func instant(version uint64) metav1.Time { return metav1.Unix(1_000_000_000+int64(version), 0) }
