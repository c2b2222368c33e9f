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
	gate     map[string]*corev1.Pod // by UID: bound pods, as seen last
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
func (sim *simulation) bind() {
	o, ok := sim.some(sim.unbound)
	if !ok {
		return
	}
	t := &attempt{pod: o.pod, node: nodes[sim.IntN(len(nodes))], running: true}
	sim.attempts = append(sim.attempts, t)
	sim.start("extender binds "+t.pod.Name, func(a *actor) {
		if err := sim.enter(a, t); err != nil {
			a.say("gives up: %v", err)
			sim.withdraw(t.uid())
		} else if err := sim.post(a, t); err != nil {
			a.say("failed: %v", err)
			sim.withdraw(t.uid())
		}
		t.running = false
	})
}

// unbound reports whether a pod has no node and is not being bound.
func (sim *simulation) unbound(o object) bool {
	return o.node() == "" && !slices.ContainsFunc(sim.attempts, func(t *attempt) bool { return t.uid() == o.uid() })
}

func (sim *simulation) withdraw(uid string) {
	sim.book.Unassume(uid)
	sim.resolved(uid)
}

// enter books the pod, waits for its turn and looks again.
func (sim *simulation) enter(a *actor, t *attempt) error {
	if err := sim.assume(t); err != nil {
		return err
	}
	a.say("books %s on %s: %s", t.pod.Name, t.node, t.bound.record())
	patience := 3 + sim.IntN(20)
	for {
		for !sim.admits(t) {
			if patience--; patience == 0 || a.over || sim.draining {
				return errors.New("it was too long in the gate")
			}
			a.pause(nil)
		}
		t.inside = true
		entered := t.allocation
		if err := sim.assume(t); err != nil {
			return err
		}
		if entered.Equal(t.allocation) {
			return nil
		}
		a.say("books anew: %s", t.bound.record())
		t.inside = false
	}
}

// admits reports whether the node's gate has only pods that kubelet's calls may confuse with this one.
func (sim *simulation) admits(t *attempt) bool {
	if sim.flaws.noGate {
		return true
	}
	alone := func(pod *corev1.Pod) bool { return kube.Movable(pod) && !sim.flaws.together }
	mixed := func(pod *corev1.Pod, a device.Allocation) bool {
		return !alone(pod) && !alone(t.pod) && a.Equal(t.allocation)
	}
	for _, other := range sim.attempts {
		if other != t && other.inside && other.node == t.node && !mixed(other.pod, other.allocation) {
			return false
		}
	}
	for _, pod := range sim.gate {
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
func (sim *simulation) assume(t *attempt) error {
	p, err := kube.PlacementPod(t.pod, placement.Binpack, sim.policy())
	if err != nil {
		return err
	}
	facts := kube.LedgerPod(t.pod, 0)
	facts.Node = t.node
	a, _, err := sim.book.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
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
	if !a.Equal(t.allocation) {
		t.allocate(a)
	}
	t.checked, t.unseen = sim.server.version, false
	for _, r := range sim.raises {
		t.unseen = t.unseen || r.node == t.node && r.version > sim.known(r.name)
	}
	return nil
}

// policy places pods now here, now there.
func (sim *simulation) policy() placement.Policy { return placement.Policy(sim.IntN(2)) }

// post binds the pod, and asks until it is known whether it did.
func (sim *simulation) post(a *actor, t *attempt) error {
	for {
		err := a.write(context.Background(), "bind to "+t.node+": "+t.bound.record(), func() error {
			o := sim.server.now(t.pod.Name)
			switch {
			case o.uid() != t.uid():
				return apierrors.NewNotFound(pods, t.pod.Name)
			case o.node() != "":
				return apierrors.NewConflict(pods, t.pod.Name, errors.New("the pod is bound already"))
			}
			sim.boundNow(t, o, sim.server.store(t.pod.Name, annotated(t.bound.pod, record, t.bound.record()), o.life))
			return nil
		})
		if err == nil || a.over {
			return nil
		}
		var o object
		if err := a.read(context.Background(), "get pod",
			func() error { o = sim.server.now(t.pod.Name); return nil }); err != nil {
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
func (sim *simulation) boundNow(t *attempt, before, after object) {
	sim.count("bound")
	excused := t.unseen || sim.raisedSince(t.node, t.checked)
	sim.roomy("the binding", before, after, excused)
	if excused && slices.ContainsFunc(without(sim.server.on(t.node, after.version), t.uid()), object.inGate) {
		sim.raises = append(sim.raises, raise{t.node, after.pod.Name, after.version})
	}
}

// force binds a pod past the gate, as an extender does that has lost its lease and does not know yet.
func (sim *simulation) force() {
	o, ok := sim.some(sim.unbound)
	if !ok {
		return
	}
	p, err := kube.PlacementPod(o.pod, placement.Binpack, sim.policy())
	if err != nil {
		sim.fail("pod %s: %v", o.pod.Name, err)
		return
	}
	t := &attempt{pod: o.pod, node: nodes[sim.IntN(len(nodes))]}
	a, reason := placement.Fit(sim.book.Node(t.node).Placement(), p)
	if reason != placement.Fits {
		return
	}
	t.allocate(a)
	sim.say("another extender binds %s to %s past the gate: %s", o.pod.Name, t.node, t.bound.record())
	sim.rewrite(o.pod.Name, t.bound.pod, o.life)
}
