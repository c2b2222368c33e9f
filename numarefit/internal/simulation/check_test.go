package simulation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// refitted checks a patch that was carried out.
func (sim *simulation) refitted(q *question, p *patch, before, after object) {
	p.applied = after.version
	sim.count("moved")
	position := q.Container.Position
	was, is := before.entries, after.entries
	switch {
	case before.uid() != q.Pod.UID || before.node() != q.Node:
		sim.fail("refit %d moved a container of another pod than it was asked for", q.number)
	case !before.inGate() || before.pod.DeletionTimestamp != nil:
		sim.fail("refit %d moved a container of a pod that is not pending any more", q.number)
	case !before.readable || !after.readable || skeleton(before) != skeleton(after):
		sim.fail("refit %d changed more than devices: %q became %q", q.number, before.record(), p.value)
	case within(devicesOf(was[position]), q.Allowed):
		sim.fail("refit %d moved a container that was where it may be: %q became %q", q.number, before.record(),
			p.value)
	case before.total != after.total:
		sim.fail("refit %d changed the namespace's charge from %v to %v", q.number, before.total, after.total)
	case q.done && !open(&q.outcome):
		sim.fail("refit %d was carried out after its answer %+v, %v", q.number, q.outcome.Answer, q.outcome.Refusal)
	}
	if sim.failure != "" {
		return
	}
	for i := range is {
		if i != position && !slices.Equal(was[i], is[i]) {
			sim.fail("refit %d moved container %d too: %q became %q", q.number, i, before.record(), p.value)
		}
	}
	if to := devicesOf(is[position]); !within(to, q.Allowed) {
		sim.fail("refit %d moved the container to %v, which is not allowed", q.number, to)
	}
	for _, o := range without(sim.server.on(q.Node, p.others), q.Pod.UID) {
		if o.inGate() {
			sim.fail("refit %d moved a container while pod %s was in the gate too", q.number, o.pod.Name)
		}
		if o.unreadable() {
			sim.fail("refit %d moved a container while the record of pod %s was unreadable", q.number, o.pod.Name)
		}
	}
	sim.roomy(fmt.Sprintf("refit %d", q.number), before, after, sim.raisedSince(q.Node, p.others))
	sim.follow(q, after)
}

// skeleton is a record without the UUIDs of devices.
func skeleton(o object) string {
	text := o.record()
	for _, uuid := range devices[o.node()] {
		text = strings.ReplaceAll(text, uuid, "")
	}
	return text
}

// roomy checks that there is room for what a write raised. It is excused if room was taken, unseen, without asking.
func (sim *simulation) roomy(what string, before, after object, excused bool) {
	if excused {
		return
	}
	for _, uuid := range devices[after.node()] {
		all := held(sim.server.on(after.node(), sim.server.version), uuid)
		if !after.on[uuid].within(before.on[uuid]) && !all.within(capacity) {
			sim.fail("%s of pod %s raises device %s to %v of %v", what, after.pod.Name, uuid, all, capacity)
		}
	}
}

// open reports whether an outcome says that a write may yet be carried out.
func open(o *decide.Outcome) bool {
	return o.Refusal != nil && strings.Contains(o.Refusal.Message, "ask again")
}

// answered checks an answer against what the API server holds and held.
func (sim *simulation) answered(q *question) {
	answer, refusal := q.outcome.Answer, q.outcome.Refusal
	now := sim.server.now(q.Pod.Name)
	stands := false // what it wrote is the record still
	for _, p := range q.patches {
		stands = stands || p.applied > 0 && now.uid() == q.Pod.UID && now.record() == p.value
	}
	switch {
	case (answer == nil) == (refusal == nil):
		sim.fail("refit %d answers and refuses, or neither: %+v, %v", q.number, answer, refusal)
	case refusal != nil && stands && !open(&q.outcome):
		sim.fail("refit %d refuses, but the record is what it wrote: %v", q.number, refusal)
	case refusal != nil:
		sim.count(string(refusal.Reason))
		if !sim.rightly(q, refusal.Reason) {
			sim.fail("refit %d refuses for no reason: %v", q.number, refusal)
		}
	case stands && !answer.Moved:
		sim.fail("refit %d says that nothing was written, but it was", q.number)
	case !sim.had(q, answer.Devices):
		sim.fail("refit %d answers %v, which the container did not have since it was asked", q.number, answer.Devices)
	default:
		sim.count("answered")
		if !within(answer.Devices, q.Allowed) {
			sim.fail("refit %d answers %v, which is not allowed", q.number, answer.Devices)
		}
	}
}

// had reports whether the container had these devices at some time since a question was asked.
func (sim *simulation) had(q *question, devices []string) bool {
	all := sim.server.pods[q.Pod.Name]
	for i, o := range all {
		over := i+1 < len(all) && all[i+1].version <= q.began
		if !over && o.uid() == q.Pod.UID && o.readable && slices.Equal(devicesOf(o.entries[q.Container.Position]),
			devices) {
			return true
		}
	}
	return false
}

func devicesOf(shares []share) (all []string) {
	for _, s := range shares {
		all = append(all, s.uuid)
	}
	return all
}

// rightly reports whether what a question read justifies a reason, as far as this can tell.
func (sim *simulation) rightly(q *question, reason refit.Reason) bool {
	switch reason {
	case refit.Conflict, refit.TooLate, refit.Unavailable:
		return true
	}
	return slices.ContainsFunc(q.gets, func(version uint64) bool {
		return sim.justified(q, reason,
			sim.server.at(q.Pod.Name, version))
	})
}

// justified reports whether a reason is right for a pod as it was read.
func (sim *simulation) justified(q *question, reason refit.Reason, o object) bool {
	others := without(sim.server.on(q.Node, q.listed), q.Pod.UID)
	switch reason {
	case refit.NoMemory, refit.NoSlots, refit.NoCores, refit.Exclusive, refit.Fragmented:
		return o.pod != nil && !o.fits(q.Container.Position, q.Allowed, others)
	case refit.AnotherInGate:
		return slices.ContainsFunc(others, object.inGate)
	case refit.UnreadableNeighbour:
		return slices.ContainsFunc(others, object.unreadable)
	case refit.UnreadableRecord:
		return o.unreadable()
	case refit.AlreadyStarted, refit.NotPending:
		return !o.inGate()
	case refit.NotRecorded:
		return !o.holds(q.Container.Position)
	case refit.PodReplaced:
		return o.pod != nil && o.uid() != q.Pod.UID
	case refit.PodGone:
		return o.uid() != q.Pod.UID || o.pod.DeletionTimestamp != nil || sim.server.now(q.Pod.Name).uid() != q.Pod.UID
	case refit.BoundElsewhere:
		return o.node() != q.Node
	case refit.NotOptedIn:
		return o.pod != nil && !aligned(o.pod)
	default:
		return false // the simulation gives no cause for any other
	}
}

// holds reports whether a container has devices in the record.
func (o object) holds(position int) bool {
	return o.readable && len(o.entries[position]) > 0
}
