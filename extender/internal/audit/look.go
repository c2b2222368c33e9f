package audit

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/page"
)

// Source is where Look reads.
type Source struct {
	// Page takes an extender's books.
	Page func(context.Context) (*page.Ledger, error)
	// State lists what the API server has, the pods as of one moment.
	State func(context.Context, phase.Release) (*State, error)
	// Pauses are between looks: while anything differs there is one look more than there are pauses.
	Pauses []time.Duration
}

// look is an extender's page beside a state.
type look struct {
	page      *page.Ledger
	state     *State
	want, got *books
	assumed   []Assumed
	differs   map[key]*difference
}

func beside(s *State, l *page.Ledger) *look {
	got, assumed := read(l, s)
	want := s.books()
	return &look{l, s, want, got, assumed, differ(want, got)}
}

// Look compares the books of one extender. It also returns the state that it compared them with last.
func Look(ctx context.Context, src Source) (Books, *State, error) {
	l, err := src.Page(ctx)
	if err != nil {
		return Books{}, nil, err
	}
	state, err := src.list(ctx, l)
	if err != nil {
		return Books{}, nil, err
	}
	before := beside(state, l)
	after := before
	open := maps.Clone(before.differs) // until it was found equal once
	for i := 0; len(open) > 0; i++ {
		if l, err = src.Page(ctx); err != nil {
			return Books{}, nil, err
		}
		before = beside(after.state, l)
		if state, err = src.list(ctx, l); err != nil {
			return Books{}, nil, err
		}
		after = beside(state, l)
		maps.DeleteFunc(open, func(k key, _ *difference) bool { return before.differs[k] == nil || after.differs[k] == nil })
		if i == len(src.Pauses) {
			break
		}
		select {
		case <-ctx.Done():
			return Books{}, nil, context.Cause(ctx)
		case <-time.After(src.Pauses[i]):
		}
	}
	return judge(before, after, open), after.state, nil
}

// list lists what the API server has, by the release policy of the extender.
func (src *Source) list(ctx context.Context, l *page.Ledger) (*State, error) {
	release, err := phase.ParseRelease(l.Release)
	if err != nil {
		return nil, fmt.Errorf("this is no /debug/ledger of an extender of this version: %w", err)
	}
	return src.State(ctx, release)
}
