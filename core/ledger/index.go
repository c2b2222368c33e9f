package ledger

import (
	"slices"
	"sync"
	"sync/atomic"
)

// index maps keys to their current values, for readers that must not wait for a writer. Values are immutable and
// replaced whole, by the holder of Book.write.
type index[V any] struct{ m sync.Map } // string to *slot[V]

// slot holds the current value of one key.
type slot[V any] struct {
	atomic.Pointer[V]
	version uint64 // the newest Pod.Version seen, which can grow without a new value; under Book.write
}

// slot returns the slot of a key, nil when there is none.
func (x *index[V]) slot(key string) *slot[V] {
	s, ok := x.m.Load(key)
	if !ok {
		return nil
	}
	return s.(*slot[V])
}

// current returns the value in a slot, nil when there is no slot.
func (s *slot[V]) current() *V {
	if s == nil {
		return nil
	}
	return s.Load()
}

// load returns the current value of a key, nil when there is none.
func (x *index[V]) load(key string) *V {
	return x.slot(key).current()
}

// store replaces the value of a key, whose slot the caller has looked up; nil removes it.
func (x *index[V]) store(key string, s *slot[V], v *V) *slot[V] {
	switch {
	case v == nil:
		x.m.Delete(key)
	case s != nil:
		s.Store(v)
	default:
		s = &slot[V]{}
		s.Store(v)
		x.m.Store(key, s)
	}
	return s
}

// all returns the current values in the given order.
func (x *index[V]) all(order func(a, b *V) int) []*V {
	var all []*V
	for _, s := range x.m.Range {
		all = append(all, s.(*slot[V]).Load())
	}
	slices.SortFunc(all, order)
	return all
}
