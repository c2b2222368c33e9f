package simulation

import (
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
)

// booked returns the pods that the book should hold: each as the API server had it at the version up to which the
// book knows it, and those that are being bound.
func (w *world) booked() (bound, assumed []object) {
	for _, name := range w.server.names {
		o := w.server.at(name, w.told(name))
		if o.node() != "" && !(w.gone[o.uid()] && o.version <= w.listed) {
			bound = append(bound, o)
		}
		for _, listed := range w.ahead {
			// The watch has skipped all of a pod that a list showed; it stays until somebody asks for it.
			if listed.pod.Name == name && listed.uid() != o.uid() {
				bound = append(bound, w.server.at(name, listed.version))
			}
		}
	}
	for _, t := range w.attempts {
		if t.allocation != nil {
			assumed = append(assumed, t.bound)
		}
	}
	return bound, assumed
}

// audit compares the book with a recomputation.
func (w *world) audit() {
	bound, assumed := w.booked()
	all := slices.Concat(bound, assumed)
	for _, o := range all {
		e := w.book.Pod(o.uid())
		switch {
		case e == nil:
			w.fail("the book does not hold pod %s on %s", o.pod.Name, o.node())
		case e.Node != o.node() || e.Assumed != slices.ContainsFunc(assumed, func(a object) bool { return a.uid() == o.uid() }):
			w.fail("the book holds pod %s on %s, assumed %t", o.pod.Name, e.Node, e.Assumed)
		}
	}
	if entries := w.book.Pods(); len(entries) != len(all) {
		w.fail("the book holds %d pods, there are %d", len(entries), len(all))
	}
	var total use
	for _, name := range nodes {
		here := slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.node() != name })
		view := w.book.Node(name)
		if len(view.Pods) != len(here) {
			w.fail("the book holds %d pods on %s, there are %d", len(view.Pods), name, len(here))
		}
		for i, d := range view.Devices {
			if want := held(here, d.UUID); !equal(view.Held[i].Amount, want) {
				w.fail("the book says that pods hold %v of %s, they hold %v", view.Held[i].Amount, d.UUID, want)
			}
		}
		if unreadable := slices.ContainsFunc(here, object.unreadable); unreadable != (view.Unreadable != "") {
			w.fail("a record on %s is unreadable: %t, the book says %q", name, unreadable, view.Unreadable)
		}
		for _, o := range here {
			total = total.plus(o.total)
		}
	}
	var used device.Amount
	if n := w.book.Namespace(namespace); n != nil {
		for _, u := range n.Used {
			used.Slots += u.Devices
			used.MemoryMiB += u.MemoryMiB
		}
	}
	if !equal(used, total) {
		w.fail("the book charges the namespace %v, it is %v", used, total)
	}
	if s := w.book.Stats(); s.Broken > 0 || s.UnknownReleases > 0 {
		w.fail("the book counts %+v", s)
	}
}

func equal(a device.Amount, u use) bool {
	return a.Slots == int64(u.slots) && a.MemoryMiB == int64(u.memory) && a.Cores == 0
}
