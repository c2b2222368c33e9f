package simulation

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
)

// booked returns the pods that the book should hold: each as the API server had it at the version up to which the
// book knows it, and those that are being bound.
func (sim *simulation) booked() (bound, assumed []object) {
	for _, name := range sim.server.names {
		o := sim.server.at(name, sim.known(name))
		if o.node() != "" && !(sim.gone[o.uid()] && o.version <= sim.listed) {
			bound = append(bound, o)
		}
		for _, listed := range sim.ahead {
			// The watch has skipped all of a pod that a list showed; it stays until somebody asks for it.
			if listed.pod.Name == name && listed.uid() != o.uid() {
				bound = append(bound, sim.server.at(name, listed.version))
			}
		}
	}
	for _, t := range sim.attempts {
		if t.allocation != nil {
			assumed = append(assumed, t.bound)
		}
	}
	return bound, assumed
}

// audit compares the book with a recomputation.
func (sim *simulation) audit() {
	bound, assumed := sim.booked()
	all := slices.Concat(bound, assumed)
	for _, o := range all {
		e := sim.book.Pod(o.uid())
		switch {
		case e == nil:
			sim.fail("the book does not hold pod %s on %s", o.pod.Name, o.node())
		case e.Node != o.node() || e.Assumed != slices.ContainsFunc(assumed,
			func(a object) bool { return a.uid() == o.uid() }):
			sim.fail("the book holds pod %s on %s, assumed %t", o.pod.Name, e.Node, e.Assumed)
		}
	}
	if entries := sim.book.Pods(); len(entries) != len(all) {
		sim.fail("the book holds %d pods, there are %d", len(entries), len(all))
	}
	var total use
	for _, name := range nodes {
		here := slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.node() != name })
		view := sim.book.Node(name)
		if len(view.Pods) != len(here) {
			sim.fail("the book holds %d pods on %s, there are %d", len(view.Pods), name, len(here))
		}
		for i, d := range view.Devices {
			if want := held(here, d.UUID); !equal(view.Held[i].Amount, want) {
				sim.fail("the book says that pods hold %v of %s, they hold %v", view.Held[i].Amount, d.UUID, want)
			}
		}
		if unreadable := slices.ContainsFunc(here, object.unreadable); unreadable != (view.Unreadable != "") {
			sim.fail("a record on %s is unreadable: %t, the book says %q", name, unreadable, view.Unreadable)
		}
		for _, o := range here {
			total = total.plus(o.total)
		}
	}
	var used device.Amount
	if n := sim.book.Namespace(namespace); n != nil {
		for _, u := range n.Used {
			used.Slots += u.Devices
			used.MemoryMiB += u.MemoryMiB
		}
	}
	if !equal(used, total) {
		sim.fail("the book charges the namespace %v, it is %v", used, total)
	}
	if s := sim.book.Stats(); s.Broken > 0 || s.UnknownReleases > 0 {
		sim.fail("the book counts %+v", s)
	}
}

func equal(a device.Amount, u use) bool {
	return a.Slots == int64(u.slots) && a.MemoryMiB == int64(u.memory) && a.Cores == 0
}
