package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// watch is the extender's informer of the pods that have a node. Of each pod it shows versions in order, each
// late and some not at all; pods overtake each other.
type watch struct {
	shown  map[string]object // by name: as the watch showed it last; none when unbound or gone
	at     map[string]uint64 // by name: the version up to which the watch has shown it
	listed uint64            // version of the newest list that overtook the watch
	ahead  []object          // listed, and not shown yet
	gone   map[string]bool   // by UID: pods of a list that were found to be gone
}

// known is the version up to which the book knows a pod.
func (x *watch) known(name string) uint64 { return max(x.at[name], x.listed) }

// visible is what a watch of bound pods shows, as the feed's transform leaves it.
func visible(o object) object {
	if o.node() == "" {
		return object{version: o.version}
	}
	reduced, err := kube.Transform(o.pod)
	if err != nil {
		panic(err) // it returns none
	}
	o.pod = reduced.(*corev1.Pod)
	return o
}

// deliver has the watch show something new: mostly the next version of a pod, sometimes a later one, sometimes the
// same again. Sometimes a list overtakes it, or pods of a list are looked up.
func (sim *simulation) deliver() {
	switch p := sim.IntN(100); {
	case p < 3:
		sim.relist()
	case p < 6:
		sim.settle()
	case p < 10:
		sim.repeat()
	default:
		var behind []string
		for _, name := range sim.server.names {
			if sim.server.now(name).version > sim.at[name] {
				behind = append(behind, name)
			}
		}
		if len(behind) > 0 {
			sim.show(behind[sim.IntN(len(behind))])
		}
	}
}

// show has the watch show a newer version of a pod.
func (sim *simulation) show(name string) {
	var newer []object
	for _, o := range sim.server.pods[name] {
		if o.version > sim.at[name] {
			newer = append(newer, o)
		}
	}
	o := newer[0]
	if sim.IntN(10) < 3 {
		o = newer[sim.IntN(len(newer))]
	}
	old, new := sim.shown[name], visible(o)
	sim.at[name] = o.version
	sim.say("the watch shows %s at version %d", name, o.version)
	sim.tell(old, new)
	sim.shown[name] = new
	sim.ahead = slices.DeleteFunc(sim.ahead, func(listed object) bool { return listed.uid() == new.uid() })
	sim.audit()
}

// repeat has the watch show a pod again as it did before (a resync).
func (sim *simulation) repeat() {
	if len(sim.server.names) == 0 {
		return
	}
	o := sim.shown[sim.server.names[sim.IntN(len(sim.server.names))]]
	if o.pod != nil {
		sim.tell(o, o)
		sim.audit()
	}
}

// tell tells the book what the watch shows, as kube.Feed does.
func (sim *simulation) tell(old, new object) {
	if old.pod != nil && new.uid() != old.uid() {
		sim.forget(old.uid())
	}
	if new.pod == nil || sim.flaws.deaf && old.uid() == new.uid() && old.record() != new.record() {
		return
	}
	sim.book.Observe(kube.LedgerPod(new.pod, 0))
	sim.gate[new.uid()] = new.pod
	if new.version > sim.listed { // else the list, which did not show it, knows better
		sim.resolved(new.uid())
	}
}

func (sim *simulation) forget(uid string) {
	if sim.book.Pod(uid) != nil {
		_, _ = sim.book.Remove(uid) // it is there
	}
	delete(sim.gate, uid)
	sim.resolved(uid)
}

// resolved ends what was meant for a pod of which the truth is known.
func (sim *simulation) resolved(uid string) {
	sim.attempts = slices.DeleteFunc(sim.attempts, func(t *attempt) bool { return t.uid() == uid })
}

// relist makes the book agree with a list, as kube.Feed does; the watch is behind.
func (sim *simulation) relist() {
	sim.ahead = nil
	sim.listed = sim.server.version
	var truths []ledger.Pod
	for _, name := range sim.server.names {
		o := visible(sim.server.now(name))
		if o.pod == nil {
			continue
		}
		truths = append(truths, kube.LedgerPod(o.pod, 0))
		sim.gate[o.uid()] = o.pod
		sim.resolved(o.uid())
		if sim.shown[name].uid() != o.uid() {
			sim.ahead = append(sim.ahead, o)
		}
	}
	sim.say("a list of version %d overtakes the watch", sim.listed)
	sim.book.Replace(truths, sim.listed)
	for uid := range sim.gate {
		if !slices.ContainsFunc(truths, func(p ledger.Pod) bool { return p.UID == uid }) {
			delete(sim.gate, uid)
		}
	}
	sim.audit()
}

// settle asks for pods that are booked and that the watch has not shown: those that a list showed, and those whose
// binding was confirmed.
func (sim *simulation) settle() {
	sim.ahead = slices.DeleteFunc(sim.ahead, func(o object) bool {
		if sim.server.now(o.pod.Name).uid() == o.uid() {
			return false
		}
		sim.say("%s was listed and is gone, unseen by the watch", o.pod.Name)
		sim.forget(o.uid())
		sim.gone[o.uid()] = true
		return true
	})
	for _, t := range slices.Clone(sim.attempts) {
		if !t.running && sim.server.now(t.pod.Name).uid() != t.uid() {
			sim.say("%s was bound and is gone, unseen by the watch", t.pod.Name)
			sim.withdraw(t.uid())
		}
	}
	sim.audit()
}
