package simulation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
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
	var cards []string
	for i, uuid := range devices[name] {
		cards = append(cards, rt.Card(uuid, capacity.memory, capacity.slots, fmt.Sprintf(`,"index":%d`, i)))
	}
	n := rt.Node(cards...)
	n.Name = name
	return n
}

// shape is what users create pods from.
type shape struct {
	containers []rt.Container
	alignment  string
	release    string
}

// shape makes up a pod of up to four containers.
func (sim *simulation) shape() (s shape) {
	s.alignment = []string{"", "best-effort", "strict", "best-effort", "strict"}[sim.IntN(5)]
	if sim.IntN(8) == 0 {
		s.release = "hold"
	}
	n := 1 + sim.IntN(4)
	sure := sim.IntN(n) // it requests devices
	for i := range n {
		class := []rune("iisa")[sim.IntN(4)]
		if i == 0 {
			class = 'a' // a pod has at least one
		}
		devices, memory := []int{0, 1, 1, 1, 1, 2}[sim.IntN(6)], 5*(1+sim.IntN(6))
		if i == sure {
			devices = max(1, devices)
		}
		c := rt.Container{Class: class, Entry: strings.Repeat(rt.Share("any", memory), devices)}
		s.containers = append(s.containers, c)
	}
	return s
}

// newLife is a pod's before kubelet's first report.
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
func (sim *simulation) create() {
	name := fmt.Sprint("p", sim.IntN(names))
	if sim.server.now(name).pod != nil {
		return
	}
	sim.created++
	s := sim.shapes[sim.IntN(len(sim.shapes))]
	pod := rt.Pod(name, s.containers...)
	sim.say("a user creates %s %v", name, s)
	pod.UID, pod.Spec.NodeName = types.UID(fmt.Sprint("uid-", sim.created)), ""
	rt.Annotated(pod, record, "")
	rt.Annotated(rt.Annotated(pod, wire.NUMAAlignment, s.alignment), wire.ReleaseAnnotation, s.release)
	sim.server.store(name, status(pod, newLife(pod)), newLife(pod))
}

// some returns one of the pods that are as wanted.
func (sim *simulation) some(wanted func(object) bool) (object, bool) {
	var all []object
	for _, name := range sim.server.names {
		if o := sim.server.now(name); o.pod != nil && wanted(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return object{}, false
	}
	return all[sim.IntN(len(all))], true
}

// delete deletes a pod, by force or not.
func (sim *simulation) delete() {
	o, ok := sim.some(func(object) bool { return true })
	if !ok {
		return
	}
	if o.node() == "" || sim.IntN(2) == 0 {
		sim.say("%s is deleted by force", o.pod.Name)
		sim.server.store(o.pod.Name, nil, life{})
		return
	}
	sim.say("%s is to be deleted", o.pod.Name)
	pod, now := *o.pod, instant(sim.server.version)
	pod.DeletionTimestamp = &now
	sim.server.store(o.pod.Name, &pod, o.life)
}

// label changes something of a pod that does not matter here.
func (sim *simulation) label() {
	if o, ok := sim.some(func(o object) bool { return o.node() != "" }); ok {
		sim.say("a user labels %s", o.pod.Name)
		sim.server.store(o.pod.Name, annotated(o.pod, "color", fmt.Sprint(sim.server.version)), o.life)
	}
}

// edit rewrites the record of a bound pod, as only an admin may.
func (sim *simulation) edit() {
	o, ok := sim.some(func(o object) bool { return o.node() != "" })
	if !ok {
		return
	}
	text := o.record()
	switch sim.IntN(4) {
	case 0:
		text = ""
	case 1:
		text = garbage
	default:
		all := devices[o.node()]
		from, to := all[sim.IntN(len(all))], all[sim.IntN(len(all))]
		text = strings.NewReplacer(from, to, to, from).Replace(text)
	}
	sim.say("an admin rewrites the record of %s: %s", o.pod.Name, text)
	sim.rewrite(o.pod.Name, annotated(o.pod, record, text), o.life)
}
