package audit

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// Source is where Compare reads.
type Source struct {
	// Read reads an extender's books.
	Read func(context.Context) (*ui.Ledger, error)
	// List lists what the API server has, the pods as of one moment.
	List func(context.Context, phase.Release) (*State, error)
	// Pauses are between comparisons: while anything differs there is one more than there are pauses.
	Pauses []time.Duration
}

// comparison is of an extender's books with a state.
type comparison struct {
	served    *ui.Ledger
	state     *State
	want, got *books
	assumed   []Assumed
	differs   differences
}

func compared(s *State, l *ui.Ledger) *comparison {
	got, apart, assumed := read(l, s)
	want := s.books()
	return &comparison{l, s, want, got, assumed, differ(want, got, apart)}
}

// open is what differed each time so far: pods, and lines for what no pod explains.
type open struct {
	pods  map[string]bool
	lines map[key]bool
}

// keep drops what a comparison finds equal.
func (o *open) keep(l *comparison) {
	maps.DeleteFunc(o.pods, func(uid string, _ bool) bool { return !l.differs.pods[uid] })
	maps.DeleteFunc(o.lines, func(k key, _ bool) bool {
		return l.differs.lines[k] == nil || len(l.differs.lines[k].other) == 0
	})
}

func (o *open) empty() bool { return len(o.pods)+len(o.lines) == 0 }

// Compare compares the books of one extender. It also returns the state that it compared them with last.
func Compare(ctx context.Context, src Source) (Books, *State, error) {
	l, err := src.Read(ctx)
	if err != nil {
		return Books{}, nil, err
	}
	state, err := src.list(ctx, l)
	if err != nil {
		return Books{}, nil, err
	}
	after := compared(state, l)
	before := after
	o := open{maps.Clone(after.differs.pods), map[key]bool{}}
	for k, d := range after.differs.lines {
		if len(d.other) > 0 {
			o.lines[k] = true
		}
	}
	for i := 0; !o.empty(); i++ {
		if before, after, err = src.between(ctx, l); err != nil {
			return Books{}, nil, err
		}
		o.keep(before)
		o.keep(after)
		if i == len(src.Pauses) {
			break
		}
		select {
		case <-ctx.Done():
			return Books{}, nil, context.Cause(ctx)
		case <-time.After(src.Pauses[i]):
		}
	}
	return judge(before, after, &o), after.state, nil
}

// between reads the books between two lists.
func (src *Source) between(ctx context.Context, last *ui.Ledger) (before, after *comparison, err error) {
	first, err := src.list(ctx, last)
	if err != nil {
		return nil, nil, err
	}
	l, err := src.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	second, err := src.list(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return compared(first, l), compared(second, l), nil
}

// list lists what the API server has, by the release policy of the extender.
func (src *Source) list(ctx context.Context, l *ui.Ledger) (*State, error) {
	release, err := phase.ParseRelease(l.Release)
	if err != nil {
		return nil, fmt.Errorf("this is no /debug/ledger of an extender of this version: %w", err)
	}
	return src.List(ctx, release)
}
