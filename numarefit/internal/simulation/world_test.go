package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// flaws are what a world can be made to do wrong, to see that it is noticed.
type flaws struct {
	noPrecondition bool // the API server ignores a patch's resourceVersion
	noGate         bool // the extender binds whenever there is room
	together       bool // pods that may be refitted enter the gate together with identical ones
	deaf           bool // the book is not told of a record that changed
}

// world is everything that there is. Only one of its actors is active at a time.
type world struct {
	*rand.Rand
	flaws      flaws
	transcript *strings.Builder // nil when nobody reads it
	steps      int
	failure    string
	counts     map[string]int
	draining   bool // everybody comes to an end, and every call works

	server  server
	raises  []raise
	flights []flight
	actors  []*actor
	turns   *turns

	asked     int
	questions []*question
	kubelets  map[string]*kubelet

	extender
	created int
	shapes  []shape
}

// raise is a write that raised what a device is charged without asking anybody: a rerun, an admin.
type raise struct {
	node, name string
	version    uint64
}

// play plays the interleaving of a seed and returns the world at its end.
func play(seed uint64, f flaws, ts *turns, transcript *strings.Builder) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, seed)), flaws: f, turns: ts, transcript: transcript,
		counts: map[string]int{}, kubelets: map[string]*kubelet{},
		server: server{pods: map[string][]object{}, nodes: map[string]*corev1.Node{}},
	}
	w.extender = extender{book: ledger.New(), gate: map[string]*corev1.Pod{}, watch: watch{
		shown: map[string]object{}, at: map[string]uint64{}, gone: map[string]bool{},
	}}
	for _, name := range nodes {
		w.server.nodes[name] = hardware[name]
		w.book.SetNode(inventories[name])
		w.kubelet(name)
	}
	for range 1 + w.IntN(3) {
		w.shapes = append(w.shapes, w.shape())
	}
	for range 3 {
		w.create()
	}
	for range 25 + w.IntN(45) {
		w.step()
	}
	w.drain()
	for _, a := range w.actors {
		a.halt()
	}
	return w
}

// step lets one thing happen.
func (w *world) step() {
	if w.failure != "" {
		return
	}
	w.steps++
	switch p := w.IntN(200); {
	case p < 116:
		w.turn()
	case p < 154:
		w.deliver()
	case p < 168:
		w.create()
	case p < 173:
		w.delete()
	case p < 178:
		w.label()
	case p < 179:
		w.edit()
	case p < 180:
		w.force()
	case p < 194:
		w.bind()
	case p < 197:
		w.land()
	case p < 198:
		w.stray()
	default:
		w.hurry()
	}
}

// turn lets one of the actors go on.
func (w *world) turn() {
	var able []*actor
	for _, a := range w.actors {
		if a.when == nil || a.when() {
			able = append(able, a)
		}
	}
	if len(able) == 0 {
		return
	}
	a := able[w.IntN(len(able))]
	if a.resume() {
		return
	}
	for i := range w.actors {
		if w.actors[i] == a {
			w.actors = append(w.actors[:i], w.actors[i+1:]...)
			return
		}
	}
}

// land lets the API server carry out a late write, or drop it.
func (w *world) land() {
	if len(w.flights) == 0 {
		return
	}
	i := w.IntN(len(w.flights))
	f := w.flights[i]
	w.flights = append(w.flights[:i], w.flights[i+1:]...)
	if w.IntN(4) == 0 {
		w.say("never arrives: %s", f.what)
		return
	}
	if err := f.do(); err != nil {
		w.say("too late: %s: %v", f.what, err)
		return
	}
	w.say("arrives late: %s", f.what)
}

// hurry ends the time of a question.
func (w *world) hurry() {
	for _, q := range w.questions {
		if !q.done && !q.budget.over && w.IntN(2) == 0 {
			w.say("the time of refit %d is up", q.number)
			q.budget.end()
			return
		}
	}
}

// fate is a number from 0 to 99 that decides about a call; the smaller, the worse.
func (w *world) fate() int {
	if w.draining {
		return 99
	}
	return w.IntN(100)
}

// write makes a pod the newest version, and notes it when that raises a device.
func (w *world) write(name string, pod *corev1.Pod, l life) object {
	return w.server.store(name, pod, l)
}

// rewrite is write for those who ask nobody for room.
func (w *world) rewrite(name string, pod *corev1.Pod, l life) object {
	before, after := w.server.now(name), w.write(name, pod, l)
	for _, uuid := range devices[after.node()] {
		if after.uid() != before.uid() || before.node() != after.node() || !after.on[uuid].within(before.on[uuid]) {
			w.raises = append(w.raises, raise{after.node(), name, after.version})
			break
		}
	}
	return after
}

// raisedSince reports whether a device of a node was raised after a version by who asks nobody.
func (w *world) raisedSince(node string, version uint64) bool {
	for _, r := range w.raises {
		if r.node == node && r.version > version {
			return true
		}
	}
	return false
}

func (w *world) say(format string, arguments ...any) {
	if w.transcript != nil {
		fmt.Fprintf(w.transcript, "%4d  %s\n", w.steps, fmt.Sprintf(format, arguments...))
	}
}

// fail notes the first thing that went wrong.
func (w *world) fail(format string, arguments ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf("step %d: ", w.steps) + fmt.Sprintf(format, arguments...)
		w.say("WRONG: %s", w.failure)
	}
}

func (w *world) count(what string) { w.counts[what]++ }

func version(pod *corev1.Pod) uint64 {
	v, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64) // the server wrote it
	return v
}
