package wake

import "math/bits"

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
		for len(s) <= id/64 {
			s = append(s, 0)
		}
		s[id/64] |= 1 << (id % 64)
	}
	return s
}

// all returns the names by number. It is not changed afterwards, only appended to.
func (n *names) all() []string { return n.names }

func (s set) has(id int) bool { return id/64 < len(s) && s[id/64]&(1<<(id%64)) != 0 }

// members yields the numbers in the set, in order.
func (s set) members(yield func(id int) bool) {
	for word, w := range s {
		for ; w != 0; w &= w - 1 {
			if !yield(word*64 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}
