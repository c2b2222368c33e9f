package simulation

import (
	"context"
	"errors"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// actor does one thing after another, and waits for its turn in between.
type actor struct {
	sim   *simulation
	name  string
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	when  func() bool // it may go on then; nil means always
	over  bool        // it was halted: its calls fail
}

// start adds an actor.
func (sim *simulation) start(name string, live func(*actor)) {
	a := &actor{sim: sim, name: name}
	a.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		live(a)
	})
	sim.actors = append(sim.actors, a)
}

// resume lets an actor go on, and reports whether it has not ended.
func (a *actor) resume() bool {
	_, ok := a.next()
	return ok
}

// halt ends an actor.
func (a *actor) halt() {
	for a.over = true; a.resume(); {
	}
}

// pause lets others go on until it is this actor's turn again, no sooner than when holds.
func (a *actor) pause(when func() bool) {
	if a.when = when; !a.over {
		a.yield(struct{}{})
	}
	a.when = nil
}

func (a *actor) say(format string, arguments ...any) { a.sim.say(a.name+": "+format, arguments...) }

var (
	errBroken = errors.New("connection reset by peer")
	errHalted = errors.New("the simulation is over")
	pods      = schema.GroupResource{Resource: "pods"}
)

// trouble is an error of a call of which nothing is known.
func (sim *simulation) trouble() error {
	switch sim.IntN(4) {
	case 0:
		return errBroken
	case 1:
		return apierrors.NewServiceUnavailable("etcdserver: leader changed")
	case 2:
		return apierrors.NewTooManyRequestsError("too many requests")
	default:
		return apierrors.NewServerTimeout(pods, "patch", 1)
	}
}

// read carries out a call that changes nothing.
func (a *actor) read(ctx context.Context, what string, do func() error) error {
	a.pause(nil)
	sim := a.sim
	switch fate := sim.fate(); {
	case a.over:
		return errHalted
	case ctx.Err() != nil:
		return ctx.Err()
	case fate < 4:
		err := sim.trouble()
		a.say("%s: %v", what, err)
		return err
	default:
		err := do()
		a.say("%s at version %d", what, sim.server.version)
		if fate < 30 {
			a.pause(nil) // the answer is late
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
}

// flight is a write that the API server carries out later, if ever.
type flight struct {
	what string
	do   func() error
}

// write carries out a call that changes something: at once, later, never, with or without an answer.
func (a *actor) write(ctx context.Context, what string, do func() error) error {
	a.pause(nil)
	sim := a.sim
	late := func() {
		sim.flights = append(sim.flights, flight{a.name + ": " + what, do})
		a.say("%s is on its way", what)
	}
	fate := sim.fate()
	if ctx.Err() != nil {
		if fate < 50 {
			late()
		}
		return ctx.Err()
	}
	switch {
	case a.over:
		return errHalted
	case fate < 2:
		a.say("%s: forbidden", what)
		return apierrors.NewForbidden(pods, "p", errors.New("the webhook of a policy said no"))
	case fate < 6:
		a.say("%s is lost", what)
		return sim.trouble()
	case fate < 12:
		late()
		return sim.trouble()
	}
	err := do()
	if err != nil {
		a.say("%s: %v", what, err)
		return err
	}
	if fate < 20 {
		a.say("%s, but the answer is lost", what)
		return sim.trouble()
	}
	a.say("%s", what)
	if fate < 30 {
		a.pause(nil)
	}
	return ctx.Err()
}
