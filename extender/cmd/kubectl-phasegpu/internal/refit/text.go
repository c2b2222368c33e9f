package refit

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// Text writes what would be answered, and what each candidate would have to bear. It returns the writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	out, g := render.Printer{Out: w}, s.Glyphs()
	title := s.Paint(render.Bold, fmt.Sprintf("container %s of Pod %s/%s", r.Container, r.Namespace, r.Pod))
	here := strings.Join(r.Devices, ", ")
	switch {
	case r.Refusal != nil:
		out.Line(s.Paint(render.Red, g.Refused), " ", title, " would not move: ", s.Paint(render.Bold, string(r.Refusal.Reason)))
		out.Line("    ", r.Refusal.Message)
	case r.Answer.Moved:
		out.Line(s.Paint(render.Green, g.Tick), " ", title, " on node ", r.Node, "  ", here, "  ", g.Arrow, "  ", s.Paint(render.Bold, strings.Join(r.Answer.Devices, ", ")))
	default:
		out.Line(s.Paint(render.Green, g.Tick), " ", title, " on node ", r.Node, " would stay: ", here, " is allowed")
	}
	name := 0
	for _, c := range r.Candidates {
		name = max(name, render.Width(c.UUID))
	}
	for _, c := range r.Candidates {
		cores := ""
		if sum := c.Peak.Cores + c.Others.Cores; sum > 0 {
			cores = fmt.Sprintf("  %s  %d of %d %% cores", g.Dot, sum, c.Capacity.Cores)
		}
		has := ""
		if c.Recorded {
			has = ", which has it already"
		}
		out.Line("    ", render.Left(c.UUID, name), fmt.Sprintf("  this pod at its peak %d, others %d: %d of %d MiB  %s  %d of %d slots", c.Peak.MemoryMiB, c.Others.MemoryMiB,
			c.Peak.MemoryMiB+c.Others.MemoryMiB, c.Capacity.MemoryMiB, g.Dot, c.Peak.Slots+c.Others.Slots, c.Capacity.Slots), cores, has)
	}
	for _, uuid := range r.Allowed {
		there := slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.UUID == uuid })
		if len(r.Candidates) > 0 && !there {
			out.Line("    ", render.Left(uuid, name), "  is not on node ", r.Node)
		}
	}
	return out.Err
}
