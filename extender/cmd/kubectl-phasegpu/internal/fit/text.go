package fit

import (
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
	d := drawing{s.To(w)}
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
		d.Line()
	}
	for _, name := range used {
		if view := r.cluster.book.Node(name); view != nil && len(view.Devices) > 0 {
			d.node(view)
		}
	}
	d.Line(fmt.Sprintf("%d of %s placed", len(r.Pods)-r.Refused(), render.Count(int64(len(r.Pods)), "pod")))
	return d.Err
}

type drawing struct{ *render.Printer }

func (d *drawing) placed(p *Placement, title string) {
	d.Line(d.Good(d.Tick), " ", d.Bold(title), "  ", d.Arrow, "  ", d.Bold(*p.Node))
	classes := kube.Classes(&p.pod.Spec)
	var rows []render.Row
	for i, shares := range p.shares {
		name, class := kube.Container(&p.pod.Spec, i).Name, classes[i].String()
		for _, s := range shares {
			cells := []string{name, class, s.UUID, fmt.Sprintf("%d MiB", s.Amount.MemoryMiB)}
			if s.Amount.Cores > 0 {
				cells = append(cells, fmt.Sprintf("%d %% cores", s.Amount.Cores))
			}
			rows = append(rows, render.Row{Cells: cells})
			name, class = "", ""
		}
	}
	d.Table("    ", []int{3}, rows...)
	if p.shares.IsEmpty() {
		d.Line("    asks for no device")
	}
}

// The text about a pod that fits nowhere has the first different answers in full, each with the first nodes that gave
// it, and counts the others. JSON has them all.
const (
	maxAnswers = 8
	maxNames   = 4
	maxLabel   = 20 // columns that nodes' names are padded to
)

// refused says why a pod fits nowhere. Nodes with the same answer are named together.
func (d *drawing) refused(p *Placement, title string) {
	d.Line(d.Bad(d.Refused), " ", d.Bold(title), "  fits on no node")
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
		names[i] = render.Names(nodes[r.Sentence], maxNames)
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
		d.Line("    ", render.Count(int64(others[sentence]), "more node"), "  ", sentence)
	}
}

func (d *drawing) answer(r Refusal, names string) {
	containers := r.Containers(nil)
	reason := r.Sentence
	if len(containers) > 0 {
		reason = r.Reason // the numbers follow
	}
	d.Line("    ", d.Bold(names), "  ", reason)
	for i := range containers {
		containers[i].Draw(d.Printer, "      ")
	}
}

// node draws how full the devices of a node are.
func (d *drawing) node(v *ledger.View) {
	d.Line("afterwards on ", d.Bold(v.Name))
	name := 0
	for _, dev := range v.Devices {
		name = max(name, render.Width(dev.UUID))
	}
	for i, dev := range v.Devices {
		held := v.Held[i]
		cores := ""
		if held.Cores > 0 {
			cores = fmt.Sprintf("  %s  %d %% cores", d.Dot, held.Cores)
		}
		d.Line("    ", render.Left(dev.UUID, name), "  ", d.Gauge(held.MemoryMiB, dev.Capacity.MemoryMiB, 24),
			fmt.Sprintf("  %d of %d MiB", held.MemoryMiB, dev.Capacity.MemoryMiB),
			fmt.Sprintf("  %s  %d of %d slots", d.Dot, held.Slots, dev.Capacity.Slots), cores)
	}
	d.Line()
}
