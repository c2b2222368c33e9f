package podrequest

import (
	"strconv"
	"strings"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
)

// Clause is one annotation by which a pod selects devices, as a selector by itself.
type Clause struct {
	placement.Selector
	Annotation string
	Values     []string
}

// Clauses returns the annotations that make a selector.
func Clauses(s *placement.Selector) []Clause {
	var all []Clause
	for _, c := range []Clause{
		{placement.Selector{Family: s.Family, UseUUIDs: s.UseUUIDs}, wire.UseUUIDAnnotation, s.UseUUIDs},
		{placement.Selector{Family: s.Family, AvoidUUIDs: s.AvoidUUIDs}, wire.NoUseUUIDAnnotation, s.AvoidUUIDs},
		{placement.Selector{Family: s.Family, UseModels: s.UseModels}, wire.UseTypeAnnotation, s.UseModels},
		{placement.Selector{Family: s.Family, AvoidModels: s.AvoidModels}, wire.NoUseTypeAnnotation, s.AvoidModels},
	} {
		if len(c.Values) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// maxQuoted is how many bytes of an annotation's value String gives, quoted: its author may fill it, and Filter repeats
// it for each node.
const maxQuoted = 60

// String gives the annotation and its value, quoted and cut.
func (c Clause) String() string {
	text := []byte(c.Annotation + ` "`)
	most := len(text) + maxQuoted
	for i, v := range c.Values {
		if i > 0 {
			v = "," + v
		}
		for _, r := range v {
			quoted := strconv.Quote(string(r))
			quoted = quoted[1 : len(quoted)-1]
			if len(text)+len(quoted) > most {
				return string(text) + `…"`
			}
			text = append(text, quoted...)
		}
	}
	return string(append(text, '"'))
}

// Selectors lists the annotations by which the pod selects devices, "" when there are none.
func (r *Request) Selectors() string {
	var words []string
	for _, c := range Clauses(&r.Placement.Selector) {
		words = append(words, c.String())
	}
	return strings.Join(words, " and ")
}
