package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// actor does one thing after another, and between them waits for its turn.
type actor struct {
	w    *world
	name string
	turn *turn
	when func() bool // it may go on then; nil is always
	over bool        // it was halted: nothing it calls works any more
}

// turn is a coroutine that plays one actor after another.
type turn struct {
	play  func() // the next actor's life, nil when it has ended
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
}

// turns are the coroutines of worlds that are played one after another: with the race detector it is their
// beginning that takes time.
type turns struct{ idle []*turn }

func (ts *turns) take() *turn {
	if n := len(ts.idle); n > 0 {
		t := ts.idle[n-1]
		ts.idle = ts.idle[:n-1]
		return t
	}
	t := &turn{}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for {
			t.play()
			t.play = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return t
}

func (ts *turns) end() {
	for _, t := range ts.idle {
		t.stop()
	}
}

// start adds an actor to the world.
func (w *world) start(name string, live func(*actor)) {
	a := &actor{w: w, name: name, turn: w.turns.take()}
	a.turn.play = func() { live(a) }
	w.actors = append(w.actors, a)
}

// resume lets an actor go on, and reports whether its life has not ended.
func (a *actor) resume() bool {
	a.turn.next()
	if a.turn.play != nil {
		return true
	}
	a.w.turns.idle = append(a.w.turns.idle, a.turn)
	return false
}

// halt has an actor come to its end.
func (a *actor) halt() {
	for a.over = true; a.resume(); {
	}
}

// pause lets others go on until it is this actor's turn again, no sooner than when holds.
func (a *actor) pause(when func() bool) {
	a.when = when
	if !a.over {
		a.turn.yield(struct{}{})
	}
	a.when = nil
}

func (a *actor) say(format string, arguments ...any) {
	if a.w.transcript != nil {
		a.w.say("%s: %s", a.name, fmt.Sprintf(format, arguments...))
	}
}

var (
	errBroken = errors.New("connection reset by peer")
	errHalted = errors.New("the simulation is over")
	pods      = schema.GroupResource{Resource: "pods"}
)

// trouble is an error of a call of which nothing is known.
func (w *world) trouble() error {
	switch w.IntN(4) {
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
	w := a.w
	switch fate := w.fate(); {
	case a.over:
		return errHalted
	case ctx.Err() != nil:
		return ctx.Err()
	case fate < 4:
		err := w.trouble()
		a.say("%s: %v", what, err)
		return err
	default:
		err := do()
		a.say("%s at version %d", what, w.server.version)
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
	w := a.w
	late := func() {
		w.flights = append(w.flights, flight{a.name + ": " + what, do})
		a.say("%s is on its way", what)
	}
	fate := w.fate()
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
		return w.trouble()
	case fate < 12:
		late()
		return w.trouble()
	}
	err := do()
	if err != nil {
		a.say("%s: %v", what, err)
		return err
	}
	if fate < 20 {
		a.say("%s, but the answer is lost", what)
		return w.trouble()
	}
	a.say("%s", what)
	if fate < 30 {
		a.pause(nil)
	}
	return ctx.Err()
}

// budget is a context whose time is up when the world says so.
type budget struct {
	context.Context
	done chan struct{}
	over bool
}

func newBudget() *budget { return &budget{Context: context.Background(), done: make(chan struct{})} }

func (b *budget) Done() <-chan struct{} { return b.done }

func (b *budget) Err() error {
	if b.over {
		return context.DeadlineExceeded
	}
	return nil
}

func (b *budget) end() {
	b.over = true
	close(b.done)
}
