package audit

import (
	"fmt"
	"io"
	"strings"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// Text writes, for each extender, what was compared and what drifts, and then the notes. It returns the
// writer's error.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{screen: s, glyphs: s.Glyphs(), out: render.Printer{Out: w}}
	for i := range r.Books {
		if i > 0 {
			d.out.Line()
		}
		d.books(&r.Books[i])
	}
	if len(r.Notes) > 0 {
		d.out.Line()
		d.out.Line("besides, and no drift:")
		for _, n := range r.Notes {
			d.out.Line("    ", d.screen.Paint(render.Bold, n.Object), "  ", n.Note)
		}
	}
	return d.out.Err
}

type drawing struct {
	screen render.Screen
	glyphs render.Glyphs
	out    render.Printer
}

func (d *drawing) books(b *Books) {
	mark, style := d.glyphs.Tick, render.Green
	switch {
	case len(b.Drift) > 0:
		mark, style = d.glyphs.Refused, render.Red
	case len(b.Unsettled) > 0:
		mark, style = "?", render.Yellow
	}
	dot := "  " + d.glyphs.Dot + "  "
	role := ""
	if b.Leads {
		role = dot + "leads"
	}
	d.out.Line(d.screen.Paint(style, mark), " ", d.screen.Paint(render.Bold, b.Source), role,
		dot, fmt.Sprintf("pods seen up to version %d", b.Seen), dot, "release ", b.Release)
	c := b.Compared
	d.out.Line("    compared: ", strings.Join([]string{
		render.Count(int64(c.Nodes), "node"), render.Count(int64(c.Devices), "device"), render.Count(int64(c.Pods), "pod"),
		render.Count(int64(c.Namespaces), "namespace"), render.Count(int64(c.Quotas), "quota line"),
	}, ", "), ": ", verdict(b))
	for i := range b.Drift {
		d.line(&b.Drift[i])
	}
	if len(b.Unsettled) > 0 {
		d.out.Line("    not to be told yet, look again:")
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
	d.out.Line("    ", d.screen.Paint(render.Bold, l.title()))
	type row struct{ label, books, recomputed, why string }
	var rows []row
	add := func(label string, books, recomputed *ui.Amount, why string) {
		if books == nil && why == "" {
			return
		}
		rows = append(rows, row{label, d.amount(books, l.Kind), d.amount(recomputed, l.Kind), why})
	}
	if l.Books != nil && *l.Books != *l.Recomputed {
		add("in all", l.Books, l.Recomputed, "")
	}
	pods := l.Pods
	if kind(l.Kind) == quotaKind {
		pods = nil // they are the namespace's, whose line is just above
	}
	for _, c := range pods {
		why := c.Why
		if c.Unsettled != "" {
			why += "; " + c.Unsettled
		}
		add("pod "+c.Namespace+"/"+c.Name, c.Books, c.Recomputed, why)
	}
	var widest row
	for _, r := range rows {
		widest.label = longer(widest.label, r.label)
		widest.books, widest.recomputed = longer(widest.books, r.books), longer(widest.recomputed, r.recomputed)
	}
	for _, r := range rows {
		parts := []string{"        ", render.Left(r.label, render.Width(widest.label))}
		if widest.books != "" {
			parts = append(parts, "  books ", render.Left(r.books, render.Width(widest.books)),
				"  recomputed ", render.Left(r.recomputed, render.Width(widest.recomputed)))
		}
		d.out.Line(append(parts, "  ", r.why)...)
	}
	for _, other := range l.Differs {
		d.out.Line("        ", other)
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
func (d *drawing) amount(a *ui.Amount, of string) string {
	if a == nil {
		return ""
	}
	if *a == (ui.Amount{}) {
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
	d.out.Line("    assumed until its Binding is answered: pod ", a.Namespace, "/", a.Name, " on node ", a.Node, ", ", strings.Join(held, ", "))
}

func longer(a, b string) string {
	if render.Width(b) > render.Width(a) {
		return b
	}
	return a
}
