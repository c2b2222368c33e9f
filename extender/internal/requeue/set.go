package requeue

import (
	"iter"
	"math/bits"
)

// names numbers node names, so that thousands of pods can each remember the nodes that refused them in
// a bit per node.
type names struct {
	ids   map[string]int
	names []string
}

// set is a set of numbered names.
type set []uint64

func (n *names) set(members []string) set {
	if n.ids == nil {
		n.ids = map[string]int{}
	}
	var s set
	for _, name := range members {
		id, ok := n.ids[name]
		if !ok {
			id = len(n.names)
			n.ids[name] = id
			n.names = append(n.names, name)
		}
		s = s.with(id)
	}
	return s
}

// all returns the names by number. It is not changed afterwards, only appended to.
func (n *names) all() []string { return n.names }

func (s set) has(id int) bool { return id/64 < len(s) && s[id/64]&(1<<(id%64)) != 0 }

// with adds a number; s is not to be used any more.
func (s set) with(id int) set {
	for len(s) <= id/64 {
		s = append(s, 0)
	}
	s[id/64] |= 1 << (id % 64)
	return s
}

// members yields the numbers in the set, in order.
func (s set) members(yield func(id int) bool) { s.pick(nil, nil)(yield) }

// pick yields, in order, the numbers in the set that are also in one, unless that is nil, and not in the other.
func (s set) pick(in, but set) iter.Seq[int] {
	return func(yield func(id int) bool) {
		for word, w := range s {
			if in != nil {
				if word >= len(in) {
					return
				}
				w &= in[word]
			}
			if word < len(but) {
				w &^= but[word]
			}
			for ; w != 0; w &= w - 1 {
				if !yield(word*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
