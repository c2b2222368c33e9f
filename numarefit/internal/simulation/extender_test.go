package simulation

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// extender binds pods as extender/internal/{bind,gate} do: book, wait in the node's gate, look again, write once
// or until the outcome is known.
type extender struct {
	book     *ledger.Book
	attempts []*attempt
	gate     map[string]*corev1.Pod // by UID: bound pods, as told last
	watch
}

// attempt is the binding of one pod to one node. It is there until the watch shows the pod, or it is withdrawn.
type attempt struct {
	pod        *corev1.Pod // unbound
	node       string
	allocation device.Allocation // nil until it is booked
	bound      object            // the pod as the binding makes it
	inside     bool              // the gate
	running    bool
	checked    uint64 // version at which the placement was checked last
	unseen     bool   // then a raise on the node was not in the book
}

func (t *attempt) uid() string { return string(t.pod.UID) }

// allocate decides on the devices.
func (t *attempt) allocate(a device.Allocation) {
	t.allocation = a
	pod := annotated(t.pod, record, kube.AllocationAnnotations(a)[record])
	pod.Spec.NodeName = t.node
	t.bound = object{pod: pod, life: newLife(pod)}.charged()
}

// bind starts to bind a pod.
func (w *world) bind() {
	var free []*corev1.Pod
	for _, name := range w.server.names {
		o := w.server.now(name)
		if o.pod != nil && o.node() == "" && w.attempt(o.uid()) == nil {
			free = append(free, o.pod)
		}
	}
	if len(free) == 0 {
		return
	}
	t := &attempt{pod: free[w.IntN(len(free))], node: nodes[w.IntN(len(nodes))], running: true}
	w.attempts = append(w.attempts, t)
	w.start("extender binds "+t.pod.Name, func(a *actor) {
		if err := w.enter(a, t); err != nil {
			a.say("gives up: %v", err)
			w.withdraw(t.uid())
		} else if err := w.post(a, t); err != nil {
			a.say("failed: %v", err)
			w.withdraw(t.uid())
		}
		t.running = false
	})
}

func (w *world) attempt(uid string) *attempt {
	if i := slices.IndexFunc(w.attempts, func(t *attempt) bool { return t.uid() == uid }); i >= 0 {
		return w.attempts[i]
	}
	return nil
}

func (w *world) withdraw(uid string) {
	w.book.Unassume(uid)
	w.attempts = slices.DeleteFunc(w.attempts, func(t *attempt) bool { return t.uid() == uid })
}

// enter books the pod, waits for its turn and looks again.
func (w *world) enter(a *actor, t *attempt) error {
	if err := w.assume(t); err != nil {
		return err
	}
	a.say("books %s on %s: %s", t.pod.Name, t.node, t.bound.record())
	patience := 3 + w.IntN(20)
	for {
		for !w.admits(t) {
			if patience--; patience == 0 || a.over || w.draining {
				return errors.New("it was too long in the gate")
			}
			a.pause(nil)
		}
		t.inside = true
		entered := t.allocation
		if err := w.assume(t); err != nil {
			return err
		}
		if same(entered, t.allocation) {
			return nil
		}
		a.say("books anew: %s", t.bound.record())
		t.inside = false
	}
}

// admits reports whether nobody is in the node's gate but pods of which the container calls may be mixed up.
func (w *world) admits(t *attempt) bool {
	if w.flaws.noGate {
		return true
	}
	alone := func(pod *corev1.Pod) bool { return kube.Movable(pod) && !w.flaws.together }
	mixed := func(pod *corev1.Pod, a device.Allocation) bool {
		return !alone(pod) && !alone(t.pod) && same(a, t.allocation)
	}
	for _, other := range w.attempts {
		if other != t && other.inside && other.node == t.node && !mixed(other.pod, other.allocation) {
			return false
		}
	}
	for _, pod := range w.gate {
		if pod.Spec.NodeName != t.node || pod.UID == t.pod.UID || !kube.InGate(pod) {
			continue
		}
		if a, err := kube.Allocation(pod); err != nil || !mixed(pod, a) {
			return false
		}
	}
	return true
}

// assume books the pod where it is booked, if it fits there still, else anew.
func (w *world) assume(t *attempt) error {
	p, err := kube.PlacementPod(t.pod, placement.Binpack, w.policy())
	if err != nil {
		return err
	}
	facts := kube.LedgerPod(t.pod, 0)
	facts.Node = t.node
	a, _, err := w.book.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
		if t.allocation != nil && placement.Check(v.Placement(), p, t.allocation, 0) == placement.Fits {
			return t.allocation, nil
		}
		a, reason := placement.Fit(v.Placement(), p)
		if reason != placement.Fits {
			return nil, errors.New(reason.String())
		}
		return a, nil
	})
	if err != nil {
		return err
	}
	if !same(a, t.allocation) {
		t.allocate(a)
	}
	t.checked, t.unseen = w.server.version, false
	for _, r := range w.raises {
		t.unseen = t.unseen || r.node == t.node && r.version > w.told(r.name)
	}
	return nil
}

func same(a, b device.Allocation) bool { return slices.EqualFunc(a, b, slices.Equal[[]device.Share]) }

// policy places pods now here, now there.
func (w *world) policy() placement.Policy { return placement.Policy(w.IntN(2)) }

// post binds the pod, and asks until it is known whether it did.
func (w *world) post(a *actor, t *attempt) error {
	for {
		err := a.write(context.Background(), "bind to "+t.node+": "+t.bound.record(), func() error {
			o := w.server.now(t.pod.Name)
			switch {
			case o.uid() != t.uid():
				return apierrors.NewNotFound(pods, t.pod.Name)
			case o.node() != "":
				return apierrors.NewConflict(pods, t.pod.Name, errors.New("the pod is bound already"))
			}
			w.boundNow(t, o, w.write(t.pod.Name, annotated(t.bound.pod, record, t.bound.record()), o.life))
			return nil
		})
		if err == nil || a.over {
			return nil
		}
		var o object
		if err := a.read(context.Background(), "get pod", func() error { o = w.server.now(t.pod.Name); return nil }); err != nil {
			continue
		}
		switch {
		case o.uid() != t.uid():
			return errors.New("the pod is gone")
		case o.node() == t.node:
			return nil
		case o.node() != "":
			return errors.New("the pod is bound elsewhere")
		}
	}
}

// boundNow checks a binding that was carried out. One made while the book did not know of a pod in the gate is
// itself past the gate.
func (w *world) boundNow(t *attempt, before, after object) {
	w.count("bound")
	excused := t.unseen || w.raisedSince(t.node, t.checked)
	w.roomy("the binding", before, after, excused)
	if excused && slices.ContainsFunc(without(w.server.on(t.node, after.version), t.uid()), object.inGate) {
		w.raises = append(w.raises, raise{t.node, after.pod.Name, after.version})
	}
}

// force binds a pod past the gate, as an extender does that has lost its lease and does not know yet.
func (w *world) force() {
	o, ok := w.some(func(o object) bool { return o.node() == "" && w.attempt(o.uid()) == nil })
	if !ok {
		return
	}
	p, err := kube.PlacementPod(o.pod, placement.Binpack, w.policy())
	if err != nil {
		w.fail("pod %s: %v", o.pod.Name, err)
		return
	}
	t := &attempt{pod: o.pod, node: nodes[w.IntN(len(nodes))]}
	a, reason := placement.Fit(w.book.Node(t.node).Placement(), p)
	if reason != placement.Fits {
		return
	}
	t.allocate(a)
	w.say("another extender binds %s to %s past the gate: %s", o.pod.Name, t.node, t.bound.record())
	w.rewrite(o.pod.Name, t.bound.pod, o.life)
}
