package audit

import (
	"fmt"
	"io"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// Text writes, for each extender, what was compared and what drifts, and then the notes. It returns the
// writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{s.To(w)}
	for i := range r.Books {
		if i > 0 {
			d.Line()
		}
		d.books(&r.Books[i])
	}
	if len(r.Notes) > 0 {
		d.Line()
		d.Line("besides, and no drift:")
		for _, n := range r.Notes {
			d.Line("    ", d.Bold(n.Object), "  ", n.Note)
		}
	}
	return d.Err
}

type drawing struct{ *render.Printer }

func (d *drawing) books(b *Books) {
	mark, style := d.Tick, render.Green
	switch {
	case len(b.Drift) > 0:
		mark, style = d.Refused, render.Red
	case len(b.Unsettled) > 0:
		mark, style = "?", render.Yellow
	}
	dot := "  " + d.Dot + "  "
	role := ""
	if b.Leads {
		role = dot + "leads"
	}
	d.Line(d.Paint(style, mark), " ", d.Bold(b.Source), role,
		dot, fmt.Sprintf("pods seen up to version %d", b.Seen), dot, "release ", b.Release)
	c := b.Compared
	d.Line("    compared: ", strings.Join([]string{
		render.Count(int64(c.Nodes), "node"), render.Count(int64(c.Devices), "device"), render.Count(int64(c.Pods),
			"pod"),
		render.Count(int64(c.Namespaces), "namespace"), render.Count(int64(c.Quotas), "quota line"),
	}, ", "), ": ", verdict(b))
	for i := range b.Drift {
		d.line(&b.Drift[i])
	}
	if len(b.Unsettled) > 0 {
		d.Line("    not to be told yet, look again:")
	}
	for i := range b.Unsettled {
		d.line(&b.Unsettled[i])
	}
	for i := range b.Assumed {
		d.assumed(&b.Assumed[i])
	}
}

func verdict(b *Books) string {
	switch {
	case len(b.Drift) > 0:
		return render.Count(int64(len(b.Drift)), "line") + " of drift"
	case len(b.Unsettled) > 0:
		return "no drift in what held still"
	default:
		return "no drift"
	}
}

// line writes a line that differs, and below it the pods that make the difference.
func (d *drawing) line(l *Line) {
	d.Line("    ", d.Bold(l.title()))
	var rows []render.Row
	add := func(label string, books, recomputed *report.Amount, why string) {
		cells := []string{label, why}
		if books != nil {
			cells = []string{label, "books " + d.amount(books, l.Kind), "recomputed " + d.amount(recomputed, l.Kind),
				why}
		}
		rows = append(rows, render.Row{Cells: cells})
	}
	if l.Books != nil && *l.Books != *l.Recomputed {
		add("in all", l.Books, l.Recomputed, "")
	}
	for _, c := range l.Pods {
		if kind(l.Kind) == quotaKind {
			break // they are the namespace's, whose line is just above
		}
		why := c.Why
		if c.Unsettled != "" {
			why += "; " + c.Unsettled
		}
		add("pod "+c.Namespace+"/"+c.Name, c.Books, c.Recomputed, why)
	}
	d.Table("        ", nil, rows...)
	for _, other := range l.Differs {
		d.Line("        ", other)
	}
}

// title names a line.
func (l *Line) title() string {
	switch kind(l.Kind) {
	case deviceKind:
		return "device " + l.Device + " on node " + l.Node
	case namespaceKind:
		return "namespace " + l.Namespace + ", " + l.Family
	case quotaKind:
		return "quota " + l.Namespace + "/" + l.Quota + ", " + l.Resource
	default:
		return "node " + l.Node
	}
}

// amount writes an amount in words; what a namespace is charged counts devices.
func (d *drawing) amount(a *report.Amount, of string) string {
	if a == nil {
		return ""
	}
	if *a == (report.Amount{}) {
		return "nothing"
	}
	unit := "slot"
	if of != string(deviceKind) {
		unit = "device"
	}
	text := fmt.Sprintf("%d MiB, %s", a.MemoryMiB, render.Count(a.Slots, unit))
	if a.Cores != 0 {
		text += fmt.Sprintf(", %d %% cores", a.Cores)
	}
	return text
}

func (d *drawing) assumed(a *Assumed) {
	var held []string
	for _, h := range a.Devices {
		held = append(held, fmt.Sprintf("%d MiB of %s", h.Reserved.MemoryMiB, h.UUID))
	}
	d.Line(fmt.Sprintf("    assumed until its Binding is answered: pod %s/%s on node %s, %s",
		a.Namespace, a.Name, a.Node, strings.Join(held, ", ")))
}
