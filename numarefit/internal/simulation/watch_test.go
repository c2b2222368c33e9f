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
	gone   map[string]bool   // by UID: pods of a list of which somebody learned that they are gone
}

// told is the version up to which the book knows a pod.
func (x *watch) told(name string) uint64 { return max(x.at[name], x.listed) }

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
// same again. Sometimes a list overtakes it, or somebody looks after pods that a list showed.
func (w *world) deliver() {
	switch p := w.IntN(100); {
	case p < 3:
		w.relist()
	case p < 6:
		w.settle()
	case p < 10:
		w.repeat()
	default:
		var behind []string
		for _, name := range w.server.names {
			if w.server.now(name).version > w.at[name] {
				behind = append(behind, name)
			}
		}
		if len(behind) > 0 {
			w.show(behind[w.IntN(len(behind))])
		}
	}
}

// show has the watch show a newer version of a pod.
func (w *world) show(name string) {
	var newer []object
	for _, o := range w.server.pods[name] {
		if o.version > w.at[name] {
			newer = append(newer, o)
		}
	}
	o := newer[0]
	if w.IntN(10) < 3 {
		o = newer[w.IntN(len(newer))]
	}
	old, new := w.shown[name], visible(o)
	w.at[name] = o.version
	w.say("the watch shows %s at version %d", name, o.version)
	w.tell(old, new)
	w.shown[name] = new
	w.ahead = slices.DeleteFunc(w.ahead, func(listed object) bool { return listed.uid() == new.uid() })
	w.audit()
}

// repeat has the watch show a pod again as it did before (a resync).
func (w *world) repeat() {
	if len(w.server.names) == 0 {
		return
	}
	o := w.shown[w.server.names[w.IntN(len(w.server.names))]]
	if o.pod != nil {
		w.tell(o, o)
		w.audit()
	}
}

// tell tells the book what the watch shows, as kube.Feed does.
func (w *world) tell(old, new object) {
	if old.pod != nil && new.uid() != old.uid() {
		w.forget(old.uid())
	}
	if new.pod == nil || w.flaws.deaf && old.uid() == new.uid() && old.record() != new.record() {
		return
	}
	w.book.Observe(kube.LedgerPod(new.pod, 0))
	w.gate[new.uid()] = new.pod
	if new.version > w.listed { // else the list, which did not show it, knows better
		w.resolved(new.uid())
	}
}

func (w *world) forget(uid string) {
	if w.book.Pod(uid) != nil {
		_, _ = w.book.Remove(uid) // it is there
	}
	delete(w.gate, uid)
	w.resolved(uid)
}

// resolved ends what was meant for a pod of which the truth is known.
func (w *world) resolved(uid string) {
	w.attempts = slices.DeleteFunc(w.attempts, func(t *attempt) bool { return t.uid() == uid })
}

// relist makes the book agree with a list, as kube.Feed does; the watch is behind.
func (w *world) relist() {
	w.ahead = nil
	w.listed = w.server.version
	var truths []ledger.Pod
	for _, name := range w.server.names {
		o := visible(w.server.now(name))
		if o.pod == nil {
			continue
		}
		truths = append(truths, kube.LedgerPod(o.pod, 0))
		w.gate[o.uid()] = o.pod
		w.resolved(o.uid())
		if w.shown[name].uid() != o.uid() {
			w.ahead = append(w.ahead, o)
		}
	}
	w.say("a list of version %d overtakes the watch", w.listed)
	w.book.Replace(truths, w.listed)
	for uid := range w.gate {
		if !slices.ContainsFunc(truths, func(p ledger.Pod) bool { return p.UID == uid }) {
			delete(w.gate, uid)
		}
	}
	w.audit()
}

// settle asks for pods that are booked and that the watch has not shown: those that a list showed, and those whose
// binding was confirmed.
func (w *world) settle() {
	w.ahead = slices.DeleteFunc(w.ahead, func(o object) bool {
		if w.server.now(o.pod.Name).uid() == o.uid() {
			return false
		}
		w.say("%s was listed and is gone, unseen by the watch", o.pod.Name)
		w.forget(o.uid())
		w.gone[o.uid()] = true
		return true
	})
	for _, t := range slices.Clone(w.attempts) {
		if !t.running && w.server.now(t.pod.Name).uid() != t.uid() {
			w.say("%s was bound and is gone, unseen by the watch", t.pod.Name)
			w.withdraw(t.uid())
		}
	}
	w.audit()
}
