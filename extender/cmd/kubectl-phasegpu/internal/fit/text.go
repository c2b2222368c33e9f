package fit

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Report is the JSON document.
type Report struct {
	Pods []Placement `json:"pods"` // in the order in which they were placed

	titles  []string // of the pods
	cluster *Cluster
}

// NewReport returns a report without pods.
func NewReport(c *Cluster) *Report { return &Report{Pods: []Placement{}, cluster: c} }

// Place places a pod on the report's cluster. The error is about the pod itself, and names the field.
func (r *Report) Place(pod *corev1.Pod, title string) error {
	p, err := r.cluster.Place(pod)
	if err == nil {
		r.Pods, r.titles = append(r.Pods, *p), append(r.titles, title)
	}
	return err
}

// Refused returns the number of pods that fit nowhere.
func (r *Report) Refused() int {
	n := 0
	for i := range r.Pods {
		if r.Pods[i].Node == nil {
			n++
		}
	}
	return n
}

// Text writes where each pod goes, and how full the nodes are that took one.
func (r *Report) Text(w io.Writer, s render.Screen) error {
	d := drawing{screen: s, glyphs: s.Glyphs(), out: render.Printer{Out: w}}
	var used []string
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Node == nil {
			d.refused(p, r.titles[i])
		} else {
			d.placed(p, r.titles[i])
			if !slices.Contains(used, *p.Node) {
				used = append(used, *p.Node)
			}
		}
		d.out.Line()
	}
	for _, name := range used {
		if view := r.cluster.book.Node(name); view != nil && len(view.Devices) > 0 {
			d.node(view)
		}
	}
	d.out.Line(fmt.Sprintf("%d of %s placed", len(r.Pods)-r.Refused(), render.Count(int64(len(r.Pods)), "pod")))
	return d.out.Err
}

type drawing struct {
	screen render.Screen
	glyphs render.Glyphs
	out    render.Printer
}

func (d *drawing) placed(p *Placement, title string) {
	d.out.Line(d.screen.Paint(render.Green, d.glyphs.Tick), " ", d.screen.Paint(render.Bold, title), "  ", d.glyphs.Arrow, "  ", d.screen.Paint(render.Bold, *p.Node))
	classes := kube.Classes(&p.pod.Spec)
	name, class, uuid, memory := 0, 0, 0, 0
	for i, shares := range p.shares {
		for _, s := range shares {
			name = max(name, render.Width(kube.Container(&p.pod.Spec, i).Name))
			class = max(class, render.Width(classes[i].String()))
			uuid, memory = max(uuid, render.Width(s.UUID)), max(memory, render.Width(mib(s.Amount)))
		}
	}
	for i, shares := range p.shares {
		label := fmt.Sprintf("%s  %s", render.Left(kube.Container(&p.pod.Spec, i).Name, name), render.Left(classes[i].String(), class))
		for _, s := range shares {
			cores := ""
			if s.Amount.Cores > 0 {
				cores = fmt.Sprintf("  %d %% cores", s.Amount.Cores)
			}
			d.out.Line("    ", label, "  ", render.Left(s.UUID, uuid), "  ", render.Right(mib(s.Amount), memory), cores)
			label = render.Left("", render.Width(label))
		}
	}
	if p.shares.IsEmpty() {
		d.out.Line("    asks for no device")
	}
}

func mib(a device.Amount) string { return fmt.Sprintf("%d MiB", a.MemoryMiB) }

// What is told of a pod that fits nowhere: the first different answers in full, each with the first
// nodes that gave it, and the others by number. JSON has them all.
const (
	maxAnswers = 8
	maxNames   = 4
	maxLabel   = 20 // columns that nodes' names are padded to
)

// refused says why a pod fits nowhere. Nodes with the same answer are named together.
func (d *drawing) refused(p *Placement, title string) {
	d.out.Line(d.screen.Paint(render.Red, d.glyphs.Refused), " ", d.screen.Paint(render.Bold, title), "  fits on no node")
	var answers []Refusal
	nodes := map[string][]string{} // by answer
	for _, r := range p.refusals {
		if nodes[r.Sentence] == nil {
			answers = append(answers, r)
		}
		nodes[r.Sentence] = append(nodes[r.Sentence], r.Node)
	}
	shown := min(len(answers), maxAnswers)
	names, width := make([]string, shown), 0
	for i, r := range answers[:shown] {
		of := nodes[r.Sentence]
		names[i] = strings.Join(of[:min(len(of), maxNames)], ", ")
		if more := len(of) - maxNames; more > 0 {
			names[i] += fmt.Sprintf(" and %d more", more)
		}
		width = min(max(width, render.Width(names[i])), maxLabel)
	}
	for i, r := range answers[:shown] {
		d.answer(r, render.Left(names[i], width))
	}
	var sentences []string
	others := map[string]int{}
	for _, r := range answers[shown:] {
		if others[r.Reason] == 0 {
			sentences = append(sentences, r.Reason)
		}
		others[r.Reason] += len(nodes[r.Sentence])
	}
	for _, sentence := range sentences {
		d.out.Line("    ", render.Count(int64(others[sentence]), "more node"), "  ", sentence)
	}
}

func (d *drawing) answer(r Refusal, names string) {
	says := r.Sentence
	if len(r.details) > 0 {
		says = r.Reason // the numbers follow
	}
	d.out.Line("    ", d.screen.Paint(render.Bold, names), "  ", says)
	for _, c := range r.details {
		d.out.Line("      ", c.asks)
		width := 0
		for _, dev := range c.devices {
			width = max(width, render.Width(dev.uuid))
		}
		for _, dev := range c.devices {
			d.out.Line("        ", render.Left(dev.uuid, width), "  ", dev.words)
		}
	}
}

// node draws how full the devices of a node are.
func (d *drawing) node(v *ledger.View) {
	d.out.Line("afterwards on ", d.screen.Paint(render.Bold, v.Name))
	name := 0
	for _, dev := range v.Devices {
		name = max(name, render.Width(dev.UUID))
	}
	for i, dev := range v.Devices {
		const width = 24
		held := v.Held[i]
		full, light := d.screen.Bar(held.MemoryMiB, dev.Capacity.MemoryMiB, width)
		cores := ""
		if held.Cores > 0 {
			cores = fmt.Sprintf("  %s  %d %% cores", d.glyphs.Dot, held.Cores)
		}
		d.out.Line("    ", render.Left(dev.UUID, name), "  ", d.screen.Paint(render.Green, full), d.screen.Paint(render.Dim, light),
			fmt.Sprintf("  %d of %d MiB  %s  %d of %d slots", held.MemoryMiB, dev.Capacity.MemoryMiB, d.glyphs.Dot, held.Slots, dev.Capacity.Slots), cores)
	}
	d.out.Line()
}
