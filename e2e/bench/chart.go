package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Sizes of the picture, in pixels: a row for each cluster, with two panels.
const (
	panelWidth, panelHeight             = 400, 240
	marginLeft, marginTop, marginBottom = 60, 50, 55
	gap, legendHeight                   = 90, 40
)

// line is one curve of a panel.
type line struct {
	mode   Mode
	points [][2]float64
}

// panel is a pair of axes and what is drawn on them.
type panel struct {
	title, x, y string
	xFrom, xTo  float64
	yTo         float64
	logarithmic bool // x
	lines       []line
}

// SVG draws, for each result, the pods bound over time in the median bursts, and how long pods waited in the
// steady part.
func SVG(results ...*Result) string {
	const width = marginLeft + 2*panelWidth + gap + 30
	row := marginTop + panelHeight + marginBottom
	var b strings.Builder
	height := legendHeight + row*len(results)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	legend(&b)
	for i, r := range results {
		top := legendHeight + i*row + marginTop
		r.boundOverTime().draw(&b, marginLeft, top)
		if len(r.Steady) > 0 {
			r.waiting().draw(&b, marginLeft+panelWidth+gap, top)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// style is how a mode is drawn: what binds is the colour, inits that finish make it dashed.
func style(m Mode) string {
	stroke := `stroke="#1f5fa8"`
	switch {
	case m.Extender:
		stroke = `stroke="#d9660a"`
	case m.Counted:
		stroke = `stroke="#4d8a3d"`
	}
	if m.Inits {
		stroke += ` stroke-dasharray="6 4"`
	}
	return stroke + ` stroke-width="2" fill="none"`
}

func legend(b *strings.Builder) {
	for i, mode := range Modes() {
		x := marginLeft + i*(2*panelWidth+gap)/len(Modes())
		fmt.Fprintf(b, `<path d="M%d 20h36" %s/><text x="%d" y="24">%s</text>`+"\n", x, style(mode), x+44, html.EscapeString(mode.String()))
	}
}

func (r *Result) boundOverTime() panel {
	p := panel{title: fmt.Sprintf("%d nodes: a burst of %d pods", r.Nodes, r.Pods), x: "seconds", y: "pods bound", yTo: float64(r.Pods)}
	for _, mode := range Modes() {
		l := line{mode: mode}
		bound := Median(r.Bursts[mode]).Bound
		for _, i := range some(len(bound)) {
			l.points = append(l.points, [2]float64{bound[i].Seconds(), float64(i + 1)})
			p.xTo = max(p.xTo, bound[i].Seconds())
		}
		p.lines = append(p.lines, l)
	}
	return p
}

func (r *Result) waiting() panel {
	p := panel{
		title: fmt.Sprintf("%d nodes: %d pods a second", r.Nodes, r.Rate), x: "ms from creation to binding", y: "percent of pods",
		yTo: 100, logarithmic: true, xFrom: math.Inf(1),
	}
	for _, mode := range Modes() {
		l := line{mode: mode}
		waited := r.Steady[mode].Waited
		for _, i := range some(len(waited)) {
			ms := max(0.1, float64(waited[i])/float64(time.Millisecond))
			l.points = append(l.points, [2]float64{ms, 100 * float64(i+1) / float64(len(waited))})
			p.xFrom, p.xTo = min(p.xFrom, ms), max(p.xTo, ms)
		}
		p.lines = append(p.lines, l)
	}
	p.xFrom, p.xTo = math.Pow(10, math.Floor(math.Log10(p.xFrom))), math.Pow(10, math.Ceil(math.Log10(p.xTo)))
	return p
}

// some lists at most 201 of n indices, first and last among them: more than that nobody sees.
func some(n int) []int {
	const most = 201
	var all []int
	if n <= most {
		for i := range n {
			all = append(all, i)
		}
		return all
	}
	for k := range most {
		all = append(all, k*(n-1)/(most-1))
	}
	return all
}

func (p panel) draw(b *strings.Builder, left, top int) {
	x := func(v float64) float64 {
		if p.logarithmic {
			return float64(left) + panelWidth*math.Log10(v/p.xFrom)/math.Log10(p.xTo/p.xFrom)
		}
		return float64(left) + panelWidth*v/p.xTo
	}
	y := func(v float64) float64 { return float64(top) + panelHeight*(1-v/p.yTo) }
	bottom := top + panelHeight
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, top-14, html.EscapeString(p.title))
	for _, v := range p.xTicks() {
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x(v), top, bottom, x(v), bottom+16, v)
	}
	for _, v := range ticks(p.yTo) {
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", left, y(v), panelWidth, left-6, y(v)+4, v)
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dh%d" stroke="#333" fill="none"/>`+"\n", left, top, bottom, panelWidth)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+panelWidth/2, bottom+36, html.EscapeString(p.x))
	fmt.Fprintf(b, `<text transform="translate(%d %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", left-46, top+panelHeight/2, html.EscapeString(p.y))
	for _, l := range p.lines {
		var d strings.Builder
		command := "M"
		for _, point := range l.points {
			fmt.Fprintf(&d, "%s%.1f %.1f", command, x(point[0]), y(point[1]))
			command = "L"
		}
		if d.Len() > 0 {
			fmt.Fprintf(b, `<path d="%s" %s/>`+"\n", d.String(), style(l.mode))
		}
	}
}

func (p panel) xTicks() []float64 {
	if !p.logarithmic {
		return ticks(p.xTo)
	}
	var all []float64
	for v := p.xFrom; v <= p.xTo*1.001; v *= 10 {
		all = append(all, v)
	}
	return all
}

// ticks lists four to ten round numbers from 0 to a value.
func ticks(to float64) []float64 {
	if to <= 0 {
		return []float64{0}
	}
	step := math.Pow(10, math.Floor(math.Log10(to)))
	for _, part := range []float64{1, 0.5, 0.2, 0.1} {
		if to/(step*part) >= 4 {
			step *= part
			break
		}
	}
	var all []float64
	for i := 0; float64(i)*step <= to*1.0001; i++ {
		all = append(all, float64(i)*step)
	}
	return all
}
