package requeue

import (
	"iter"
	"math/bits"
)

// numbers numbers node names, so that thousands of pods can each remember the nodes that refused them in a bit per
// node.
type numbers struct {
	ids   map[string]int
	names []string // by number; only appended to
}

// set is a set of numbers.
type set []uint64

func (n *numbers) set(names []string) set {
	if n.ids == nil {
		n.ids = map[string]int{}
	}
	var s set
	for _, name := range names {
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

// with adds a number, in place where there is space.
func (s set) with(id int) set {
	for len(s) <= id/64 {
		s = append(s, 0)
	}
	s[id/64] |= 1 << (id % 64)
	return s
}

// members yields, in order, the numbers that are also in one set, unless that is nil, and not in another.
func (s set) members(in, but set) iter.Seq[int] {
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
