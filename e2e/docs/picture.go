package docs

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/phase"
)

// Measures of the picture, in pixels.
const (
	width    = 860
	left     = 178 // where the first phase begins
	column   = 166 // of one phase
	gap      = 24  // between the phases and the column of the sum
	row      = 34  // of one container
	barsTop  = 64
	chartTop = 226
	chart    = 300 // height of the card and of what is beyond it
	padding  = 14  // beside a stack of memory
)

// style has its own ground, so that the picture is legible on any page, and follows the reader's choice of
// light or dark.
const style = `
  svg { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .ground { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328 }
  .faint { fill: #59636e }
  .strong { font-weight: 600 }
  .on { fill: #ffffff; font-weight: 600 }
  .init { fill: #0969da }
  .sidecar { fill: #6639ba }
  .app { fill: #116329 }
  .line { stroke: #d0d7de; stroke-dasharray: 3 4 }
  .card { stroke: #1f2328; stroke-width: 1.5 }
  .reserved { fill: none; stroke: #bc4c00; stroke-width: 3 }
  .reservedtext { fill: #953800; font-weight: 600 }
  .sum { fill: none; stroke: #59636e; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .faint { fill: #9198a1 }
    .on { fill: #0d1117 }
    .init { fill: #58a6ff }
    .sidecar { fill: #bc8cff }
    .app { fill: #3fb950 }
    .line { stroke: #3d444d }
    .card { stroke: #f0f6fc }
    .reserved { stroke: #ffa657 }
    .reservedtext { fill: #ffa657 }
    .sum { stroke: #9198a1 }
  }
`

// Picture draws an example: who is alive when, and what the pod reserves of its card.
func Picture(e *Example) []byte {
	p := &picture{Example: e}
	bottom := chartTop + chart
	p.element(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc">`, width, bottom+48)
	p.element(`<title id="title">The phases of a pod</title>`)
	p.element(`<desc id="desc">%s</desc>`, describe(e))
	p.element("<style>%s</style>", style)
	p.element(`<rect class="ground" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`, width-1, bottom+47)
	p.bars()
	p.memory()
	p.element("</svg>")
	return []byte(p.String())
}

// describe says what there is to see.
func describe(e *Example) string {
	var phases []string
	for _, ph := range e.Phases {
		phases = append(phases, fmt.Sprintf("%s uses %d MiB while %d are reserved", ph.Name, ph.Uses, ph.Reserved))
	}
	return fmt.Sprintf("Init containers run one by one, sidecars from their turn to the end, apps after all init containers. %s. The sum of all containers, %d MiB, is never used.",
		strings.Join(phases, "; "), e.Sum)
}

type picture struct {
	strings.Builder
	*Example
}

func (p *picture) element(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *picture) text(class string, x, y int, anchor, format string, args ...any) {
	p.element(`<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`, class, x, y, anchor, fmt.Sprintf(format, args...))
}

// x is where phase k begins.
func x(k int) int { return left + k*column }

// bars draws each container from the first phase in which it is alive to the last.
func (p *picture) bars() {
	end := x(len(p.Phases))
	for k, ph := range p.Phases {
		label := "while " + ph.Name + " runs"
		if k == len(p.Phases)-1 {
			label = "steady state"
		}
		p.text("strong", x(k)+column/2, 30, "middle", "%s", label)
	}
	for k := range len(p.Phases) + 1 {
		p.element(`<line class="line" x1="%d" y1="42" x2="%d" y2="%d"/>`, x(k), x(k), chartTop+chart)
	}
	for position, class := range p.Classes {
		y := barsTop + position*row
		p.text("strong", 20, y+17, "start", "%s", p.Names[position])
		p.text("faint", left-16, y+17, "end", "%v", class)
		first, last := -1, 0
		for k := range p.Phases {
			if p.Classes.Alive(k, position) {
				last = k
				if first < 0 {
					first = k
				}
			}
		}
		from, to := x(first)+3, x(last+1)-3
		if class == phase.Init {
			p.element(`<rect class="%v" x="%d" y="%d" width="%d" height="24" rx="4"/>`, class, from, y, to-from)
		} else { // it lives on
			p.element(`<path class="%v" d="M%d %dH%dL%d %dL%d %dH%dZ"/>`, class, from, y, end, end+12, y+12, end, y+24, from)
		}
		p.text("on", from+10, y+17, "start", "%d MiB", p.Memory[position])
	}
}

// y is the height of an amount of memory in the chart, in which the sum of all containers fits.
func (p *picture) y(mib int64) int {
	return chartTop + chart - int(mib*chart/max(p.Sum, CardMiB))
}

// memory draws what is used in each phase, what is reserved, the card, and the sum that is never used.
func (p *picture) memory() {
	end := x(len(p.Phases))
	p.text("strong", 20, p.y(CardMiB)+4, "start", "the card: %d", CardMiB)
	for k, ph := range p.Phases {
		bottom := int64(0)
		for position, class := range p.Classes {
			if !p.Classes.Alive(k, position) {
				continue
			}
			top := bottom + p.Memory[position]
			p.element(`<rect class="%v" x="%d" y="%d" width="%d" height="%d"/>`, class, x(k)+padding, p.y(top)+1, column-2*padding, p.y(bottom)-p.y(top)-1)
			p.text("on", x(k)+column/2, (p.y(top)+p.y(bottom))/2+5, "middle", "%s", p.Names[position])
			bottom = top
		}
		p.text("faint", x(k)+column/2, chartTop+chart+20, "middle", "uses %d", ph.Uses)
	}
	sum := end + gap + padding
	p.element(`<rect class="sum" x="%d" y="%d" width="%d" height="%d"/>`, sum, p.y(p.Sum), width-sum-padding-10, p.y(0)-p.y(p.Sum))
	for i, line := range []string{"the sum of", "all containers:", fmt.Sprint(p.Sum), "no moment", "ever sees it"} {
		p.text("faint", sum+(width-sum-padding-10)/2, p.y(CardMiB)+28+i*18, "middle", "%s", line)
	}
	p.element(`<line class="card" x1="%d" y1="%d" x2="%d" y2="%d"/>`, left, p.y(CardMiB), width-padding, p.y(CardMiB))
	p.element(`<line class="card" x1="%d" y1="%d" x2="%d" y2="%d"/>`, left, p.y(0), width-padding, p.y(0))
	p.text("faint", 20, p.y(0)+4, "start", "0 MiB")

	var steps strings.Builder
	for k, ph := range p.Phases {
		command := "L"
		if k == 0 {
			command = "M"
		}
		fmt.Fprintf(&steps, "%s%d %dH%d", command, x(k), p.y(ph.Reserved), x(k+1))
	}
	p.element(`<path class="reserved" d="%s"/>`, &steps)
	p.text("reservedtext", x(0)+8, p.y(p.Peak())-9, "start", "%d reserved: the peak", p.Peak())
	p.text("reservedtext", end-8, p.y(p.Steady())-9, "end", "%d reserved", p.Steady())
	for k := 1; k < len(p.Phases); k++ {
		before, after := p.Phases[k-1].Reserved, p.Phases[k].Reserved
		if before > after {
			p.text("reservedtext", x(k)+8, (p.y(before)+p.y(after))/2-9, "start", "%d released when %s exits", before-after, p.Phases[k-1].Name)
		}
	}
}
