package refit

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Text writes what would be answered, and what each candidate would hold. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	p := s.To(w)
	title := p.Bold(fmt.Sprintf("container %s of Pod %s/%s", r.Container, r.Namespace, r.Pod))
	devices := strings.Join(r.Devices, ", ")
	switch {
	case r.Refusal != nil:
		p.Line(p.Bad(p.Refused), " ", title, " would not move: ", p.Bold(string(r.Refusal.Reason)))
		p.Line("    ", r.Refusal.Message)
	case r.Answer.Moved:
		to := p.Bold(strings.Join(r.Answer.Devices, ", "))
		p.Line(p.Good(p.Tick), " ", title, " on node ", r.Node, "  ", devices, "  ", p.Arrow, "  ", to)
	default:
		p.Line(p.Good(p.Tick), " ", title, " on node ", r.Node, " would stay: ", devices, " is allowed")
	}
	var rows []render.Row
	for _, c := range r.Candidates {
		sum := c.Peak.Plus(c.Others)
		text := fmt.Sprintf("this pod at its peak %d, others %d: %d of %d MiB  %s  %d of %d slots",
			c.Peak.MemoryMiB, c.Others.MemoryMiB, sum.MemoryMiB, c.Capacity.MemoryMiB,
			p.Dot, sum.Slots, c.Capacity.Slots)
		if sum.Cores > 0 {
			text += fmt.Sprintf("  %s  %d of %d %% cores", p.Dot, sum.Cores, c.Capacity.Cores)
		}
		if c.Recorded {
			text += ", which has it already"
		}
		rows = append(rows, render.Row{Cells: []string{c.UUID, text}})
	}
	for _, uuid := range r.Allowed {
		there := slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.UUID == uuid })
		if len(r.Candidates) > 0 && !there {
			rows = append(rows, render.Row{Cells: []string{uuid, "is not on node " + r.Node}})
		}
	}
	p.Table("    ", nil, rows...)
	return p.Err
}
