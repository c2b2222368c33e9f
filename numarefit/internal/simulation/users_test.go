package simulation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const (
	namespace = "team"
	record    = "hami.io/vgpu-devices-allocated"
	names     = 6 // of pods
)

var (
	nodes    = []string{"n0", "n1"}
	capacity = use{slots: 4, memory: 40}
	garbage  = "GPU,NVIDIA,abc,0:;"

	devices     = map[string][]string{"n0": {"G0", "G1", "G2"}, "n1": {"G3", "G4", "G5"}}
	hardware    = map[string]*corev1.Node{"n0": newNode("n0"), "n1": newNode("n1")}
	inventories = map[string]ledger.Node{"n0": kube.Node(hardware["n0"]), "n1": kube.Node(hardware["n1"])}
)

func newNode(name string) *corev1.Node {
	var list []string
	for i, uuid := range devices[name] {
		list = append(list, fmt.Sprintf(`{"id":%q,"index":%d,"count":%d,"devmem":%d,"devcore":100,"type":"A100","health":true}`, uuid, i, capacity.slots, capacity.memory))
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"hami.io/node-nvidia-register": "[" + strings.Join(list, ",") + "]",
	}}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(len(list)*capacity.slots), resource.DecimalSI)}
	return n
}

// shape is what users create pods from.
type shape struct {
	text        string
	spec        corev1.PodSpec
	annotations map[string]string
}

// shape makes up a pod of up to four containers.
func (w *world) shape() shape {
	s := shape{annotations: map[string]string{}}
	if alignment := []string{"", "best-effort", "strict", "best-effort", "strict"}[w.IntN(5)]; alignment != "" {
		s.annotations[wire.NUMAAlignment] = alignment
	}
	if w.IntN(8) == 0 {
		s.annotations[wire.ReleaseAnnotation] = "hold"
	}
	n := 1 + w.IntN(4)
	sure := w.IntN(n) // it asks for devices
	for i := range n {
		class := []string{"i", "i", "s", "a"}[w.IntN(4)]
		if i == 0 {
			class = "a" // a pod has one at least
		}
		c := corev1.Container{Name: fmt.Sprint(class, i)}
		devices, memory := []int{0, 1, 1, 1, 1, 2}[w.IntN(6)], 5*(1+w.IntN(6))
		if i == sure {
			devices = max(1, devices)
		}
		if devices > 0 {
			c.Resources.Limits = corev1.ResourceList{
				"nvidia.com/gpu":    *resource.NewQuantity(int64(devices), resource.DecimalSI),
				"nvidia.com/gpumem": *resource.NewQuantity(int64(memory), resource.DecimalSI),
			}
		}
		s.text += fmt.Sprintf(" %s %d×%d", c.Name, devices, memory)
		switch class {
		case "a":
			s.spec.Containers = append(s.spec.Containers, c)
			continue
		case "s":
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		s.spec.InitContainers = append(s.spec.InitContainers, c)
	}
	s.text += fmt.Sprint(" ", s.annotations)
	return s
}

// newLife is that of a pod of which nobody has seen anything.
func newLife(pod *corev1.Pod) life {
	var l life
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].RestartPolicy == nil {
			l.inits = append(l.inits, run{})
		}
	}
	return l
}

// create creates a pod under a name that is free.
func (w *world) create() {
	name := fmt.Sprint("p", w.IntN(names))
	if w.server.now(name).pod != nil {
		return
	}
	w.created++
	s := w.shapes[w.IntN(len(w.shapes))]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("uid-", w.created)), Annotations: s.annotations},
		Spec:       s.spec,
	}
	w.say("a user creates %s (%s):%s", name, pod.UID, s.text)
	w.write(name, status(pod, newLife(pod)), newLife(pod))
}

// some returns one of the pods that are as wanted.
func (w *world) some(wanted func(object) bool) (object, bool) {
	var all []object
	for _, name := range w.server.names {
		if o := w.server.now(name); o.pod != nil && wanted(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return object{}, false
	}
	return all[w.IntN(len(all))], true
}

// delete deletes a pod, by force or not.
func (w *world) delete() {
	o, ok := w.some(func(object) bool { return true })
	if !ok {
		return
	}
	if o.node() == "" || w.IntN(2) == 0 {
		w.say("%s is deleted by force", o.pod.Name)
		w.write(o.pod.Name, nil, life{})
		return
	}
	w.say("%s is to be deleted", o.pod.Name)
	pod, now := *o.pod, instant(w.server.version)
	pod.DeletionTimestamp = &now
	w.write(o.pod.Name, &pod, o.life)
}

// label changes something of a pod that concerns nobody here.
func (w *world) label() {
	if o, ok := w.some(func(o object) bool { return o.node() != "" }); ok {
		w.say("a user labels %s", o.pod.Name)
		w.write(o.pod.Name, annotated(o.pod, "color", fmt.Sprint(w.server.version)), o.life)
	}
}

// edit rewrites the record of a bound pod, as only an admin may.
func (w *world) edit() {
	o, ok := w.some(func(o object) bool { return o.node() != "" })
	if !ok {
		return
	}
	text := o.record()
	switch w.IntN(4) {
	case 0:
		text = ""
	case 1:
		text = garbage
	default:
		all := devices[o.node()]
		from, to := all[w.IntN(len(all))], all[w.IntN(len(all))]
		text = strings.NewReplacer(from, to, to, from).Replace(text)
	}
	w.say("an admin rewrites the record of %s: %s", o.pod.Name, text)
	w.rewrite(o.pod.Name, annotated(o.pod, record, text), o.life)
}
