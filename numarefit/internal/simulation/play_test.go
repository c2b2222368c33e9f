package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// flaws are defects that a simulation can be given, to see that it notices them.
type flaws struct {
	noPrecondition bool // the API server ignores a patch's resourceVersion
	noGate         bool // the extender binds whenever there is room
	together       bool // pods that may be refitted enter the gate together with identical ones
	deaf           bool // the book misses changed records
}

// simulation is one interleaving. Only one of its actors is active at a time.
type simulation struct {
	*rand.Rand
	flaws      flaws
	transcript *strings.Builder // nil for none
	steps      int
	failure    string
	counts     map[string]int
	draining   bool // all actors end, and every call works

	server  server
	raises  []raise
	flights []flight
	actors  []*actor

	asked     int
	questions []*question
	kubelets  map[string]*kubelet

	extender
	created int
	shapes  []shape
}

// raise is a write that raised the charge of a device without asking for room: a rerun, an admin.
type raise struct {
	node, name string
	version    uint64
}

// play plays the interleaving of a seed.
func play(seed uint64, f flaws, transcript *strings.Builder) *simulation {
	sim := &simulation{
		Rand: rand.New(rand.NewPCG(seed, seed)), flaws: f, transcript: transcript,
		counts: map[string]int{}, kubelets: map[string]*kubelet{},
		server: server{pods: map[string][]object{}},
	}
	sim.extender = extender{book: ledger.New(), gate: map[string]*corev1.Pod{}, watch: watch{
		shown: map[string]object{}, at: map[string]uint64{}, gone: map[string]bool{},
	}}
	for _, name := range nodes {
		sim.book.SetNode(inventories[name])
		sim.kubelet(name)
	}
	for range 1 + sim.IntN(3) {
		sim.shapes = append(sim.shapes, sim.shape())
	}
	for range 3 {
		sim.create()
	}
	for range 25 + sim.IntN(45) {
		sim.step()
	}
	sim.drain()
	for _, a := range sim.actors {
		a.halt()
	}
	return sim
}

// step lets one thing happen.
func (sim *simulation) step() {
	if sim.failure != "" {
		return
	}
	sim.steps++
	switch p := sim.IntN(200); {
	case p < 116:
		sim.turn()
	case p < 154:
		sim.deliver()
	case p < 168:
		sim.create()
	case p < 173:
		sim.delete()
	case p < 178:
		sim.label()
	case p < 179:
		sim.edit()
	case p < 180:
		sim.force()
	case p < 194:
		sim.bind()
	case p < 197:
		sim.land()
	case p < 198:
		sim.stray()
	default:
		sim.hurry()
	}
}

// turn lets one of the actors go on.
func (sim *simulation) turn() {
	var able []*actor
	for _, a := range sim.actors {
		if a.when == nil || a.when() {
			able = append(able, a)
		}
	}
	if len(able) == 0 {
		return
	}
	a := able[sim.IntN(len(able))]
	if a.resume() {
		return
	}
	sim.actors = slices.DeleteFunc(sim.actors, func(other *actor) bool { return other == a })
}

// land lets the API server carry out a late write, or drop it.
func (sim *simulation) land() {
	if len(sim.flights) == 0 {
		return
	}
	i := sim.IntN(len(sim.flights))
	f := sim.flights[i]
	sim.flights = slices.Delete(sim.flights, i, i+1)
	if sim.IntN(4) == 0 {
		sim.say("never arrives: %s", f.what)
		return
	}
	if err := f.do(); err != nil {
		sim.say("too late: %s: %v", f.what, err)
		return
	}
	sim.say("arrives late: %s", f.what)
}

// hurry ends the time of a question.
func (sim *simulation) hurry() {
	for _, q := range sim.questions {
		if !q.done && q.ctx.Err() == nil && sim.IntN(2) == 0 {
			sim.say("the time of refit %d is up", q.number)
			q.expire()
			return
		}
	}
}

// fate is a number from 0 to 99 that decides about a call; the smaller, the worse.
func (sim *simulation) fate() int {
	if sim.draining {
		return 99
	}
	return sim.IntN(100)
}

// rewrite stores a pod's next version for a writer that does not ask for room. It notes whether that raises a device.
func (sim *simulation) rewrite(name string, pod *corev1.Pod, l life) {
	before, after := sim.server.now(name), sim.server.store(name, pod, l)
	moved := after.uid() != before.uid() || before.node() != after.node()
	if slices.ContainsFunc(devices[after.node()], func(uuid string) bool {
		return moved || !after.on[uuid].within(before.on[uuid])
	}) {
		sim.raises = append(sim.raises, raise{after.node(), name, after.version})
	}
}

// raisedSince reports whether a device of a node was raised after a version without asking for room.
func (sim *simulation) raisedSince(node string, version uint64) bool {
	return slices.ContainsFunc(sim.raises, func(r raise) bool { return r.node == node && r.version > version })
}

func (sim *simulation) say(format string, arguments ...any) {
	if sim.transcript != nil {
		fmt.Fprintf(sim.transcript, "%4d  %s\n", sim.steps, fmt.Sprintf(format, arguments...))
	}
}

// fail notes the first thing that went wrong.
func (sim *simulation) fail(format string, arguments ...any) {
	if sim.failure == "" {
		sim.failure = fmt.Sprintf("step %d: ", sim.steps) + fmt.Sprintf(format, arguments...)
		sim.say("WRONG: %s", sim.failure)
	}
}

func (sim *simulation) count(what string) { sim.counts[what]++ }
