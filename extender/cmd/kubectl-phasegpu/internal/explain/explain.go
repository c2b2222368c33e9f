// Package explain describes what a pod requests and holds: its containers, the phases it passes through,
// and, once it is bound, what is reserved for it now.
package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Report is the JSON document.
type Report struct {
	Pods []Explanation `json:"pods"`
}

// Explanation is about one pod. A memory amount that only a device can settle (a percentage of
// its memory, or all of it) is null, and so is every total that has a part in it. A pod whose
// containers name several families has one total over all of them, as the shape asks; the text keeps
// the families apart, and so do the books.
type Explanation struct {
	Namespace      string      `json:"namespace"`
	Name           string      `json:"name"`
	Containers     []Container `json:"containers"` // by position
	Phases         []Phase     `json:"phases"`     // steady last
	Peak           Amount      `json:"peak"`       // maximum over the phases, each dimension on its own
	Steady         Amount      `json:"steady"`
	CompletedInits int         `json:"completedInits"` // in this cycle
	Reserved       *Reserved   `json:"reserved"`       // null when the pod's record cannot be read

	Title string `json:"-"` // of the pod in text

	text detail
}

// Container is what one container asks for; memory and cores are per device.
type Container struct {
	Position      int    `json:"position"`
	Name          string `json:"name"`
	Class         string `json:"class"`  // init, sidecar, app
	Family        string `json:"family"` // type word, "" without devices
	Devices       int    `json:"devices"`
	MemoryMiB     *int64 `json:"memoryMiB"`
	MemoryPercent int64  `json:"memoryPercent"` // 0 when not asked for
	Cores         int64  `json:"cores"`         // percent, 0 is no limit
}

// Phase is a phase and what its containers request.
type Phase struct {
	report.Phase
	Total Amount `json:"total"`
}

// Amount is a total over devices: MiB × devices and percent × devices.
type Amount struct {
	Devices   int64  `json:"devices"`
	MemoryMiB *int64 `json:"memoryMiB"`
	Cores     int64  `json:"cores"`
}

// Reserved is what the books charge now: each device the maximum over the remaining phases there, and
// the namespace the largest remaining phase total.
type Reserved struct {
	PerDevice []report.Share `json:"perDevice"` // by UUID
	Total     Total          `json:"total"`
}

// Total is what is reserved over all devices.
type Total struct {
	MemoryMiB int64 `json:"memoryMiB"`
	Cores     int64 `json:"cores"`
}

// detail is what the text shows beyond the JSON.
type detail struct {
	node     string
	classes  phase.Pod
	release  phase.Release
	progress phase.Progress
	first    int // first phase that is still reserved
	families []family
	devices  []holding
	charged  []phase.Total // now, by family
}

// family is the phases' totals of one family, and how they fold.
type family struct {
	word         string
	phases       []Amount
	peak, steady Amount

	least, leastSteady int64 // MiB of the containers that name a number
}

// holding is what the pod holds of a device now and at its peak.
type holding struct {
	uuid, family string
	now, peak    device.Amount
}

// Pod explains a pod under a release policy, which the pod's annotation overrides. The error names the
// field; the result has what is known all the same, and is nil when that is nothing.
func Pod(pod *corev1.Pod, byDefault phase.Release) (*Explanation, error) {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return nil, err
	}
	release, err := kube.Release(pod, byDefault)
	if err != nil {
		return nil, err
	}
	classes := kube.Classes(&pod.Spec)
	progress := classes.Progress(kube.Status(pod))
	e := &Explanation{Namespace: pod.Namespace, Name: pod.Name, CompletedInits: progress.Inits}
	e.text = detail{
		node: pod.Spec.NodeName, classes: classes, release: release,
		progress: progress, first: classes.First(progress, release),
	}
	for _, p := range report.Phases(&pod.Spec) {
		e.Phases = append(e.Phases, Phase{Phase: p})
	}
	for i, r := range requests {
		e.Containers = append(e.Containers, container(i, kube.Container(&pod.Spec, i).Name, classes[i], r))
	}
	if err := e.addPhases(requests); err != nil {
		return nil, err
	}
	return e, e.addReserved(pod)
}

func container(position int, name string, class phase.Class, r device.Request) Container {
	c := Container{
		Position: position, Name: name, Class: class.String(),
		Family: r.Family, Devices: r.Devices, MemoryPercent: r.MemoryPercent, Cores: r.Cores,
	}
	if r.MemoryKnown() {
		c.MemoryMiB = &r.MemoryMiB
	}
	return c
}

// addPhases totals the phases, over all families and for each.
func (e *Explanation) addPhases(requests []device.Request) error {
	classes := e.text.classes
	all, err := totals("", classes, requests)
	if err != nil {
		return err
	}
	for k := range e.Phases {
		e.Phases[k].Total = all.phases[k]
	}
	e.Peak, e.Steady = all.peak, all.steady

	for _, r := range requests {
		known := slices.ContainsFunc(e.text.families, func(f family) bool { return f.word == r.Family })
		if r.Devices == 0 || known {
			continue
		}
		f, err := totals(r.Family, classes, requests)
		if err != nil {
			return err
		}
		e.text.families = append(e.text.families, f)
	}
	return nil
}

// totals returns the totals of the phases for one family, or for all when word is empty.
func totals(word string, classes phase.Pod, requests []device.Request) (family, error) {
	f := family{word: word}
	counts := func(position int) bool {
		return requests[position].Devices > 0 && (word == "" || requests[position].Family == word)
	}
	var peak device.Amount
	peakKnown := true
	for k := range classes.Len() {
		var sum device.Amount
		known := true
		for i := range requests {
			if !classes.Alive(k, i) || !counts(i) {
				continue
			}
			r, n := requests[i], int64(requests[i].Devices)
			added, err := sum.Add(device.Amount{Slots: n, MemoryMiB: n * r.MemoryMiB, Cores: n * r.Cores})
			if err != nil {
				return family{}, fmt.Errorf("phase %d: %w", k, err)
			}
			sum, known = added, known && r.MemoryKnown()
		}
		peak, peakKnown = peak.Max(sum), peakKnown && known
		f.phases = append(f.phases, amount(sum, known))
		f.least, f.leastSteady = peak.MemoryMiB, sum.MemoryMiB
	}
	f.peak, f.steady = amount(peak, peakKnown), f.phases[classes.Steady()]
	return f, nil
}

func amount(a device.Amount, memoryKnown bool) Amount {
	total := Amount{Devices: a.Slots, Cores: a.Cores}
	if memoryKnown {
		total.MemoryMiB = &a.MemoryMiB
	}
	return total
}

// addReserved adds what the books charge for the pod. Only a pod with a node is charged anything.
func (e *Explanation) addReserved(pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" {
		e.Reserved = &Reserved{PerDevice: []report.Share{}}
		return nil
	}
	allocation, err := kube.Allocation(pod)
	switch {
	case err != nil && e.text.progress.Terminal:
		allocation = nil // nothing of it is reserved, so nothing of its record matters
	case err != nil:
		return err
	}
	now, err := e.text.classes.Reserved(allocation, e.text.first)
	if err != nil {
		return err
	}
	peak, err := e.text.classes.Reserved(allocation, 0)
	if err != nil {
		return err
	}
	e.Reserved = &Reserved{PerDevice: []report.Share{}}
	for _, d := range now.Devices {
		e.Reserved.PerDevice = append(e.Reserved.PerDevice, report.Share{UUID: d.UUID, Amount: report.Amount(d.Amount)})
	}
	total, err := e.text.classes.Fold(e.text.first, func(position int) device.Amount {
		return sum(allocation, position)
	})
	if err != nil {
		return err
	}
	e.Reserved.Total = Total{total.MemoryMiB, total.Cores}
	e.text.charged = now.Totals
	for _, d := range peak.Devices {
		h := holding{uuid: d.UUID, family: d.Family, peak: d.Amount}
		for _, n := range now.Devices {
			if n.UUID == d.UUID && n.Family == d.Family {
				h.now = n.Amount
			}
		}
		e.text.devices = append(e.text.devices, h)
	}
	return nil
}

// sum returns what a container holds over all its devices. It cannot overflow where Reserved did not.
func sum(a device.Allocation, position int) device.Amount {
	var total device.Amount
	if position < len(a) {
		for _, s := range a[position] {
			total, _ = total.Add(s.Amount)
		}
	}
	return total
}

// value returns an amount of memory, 0 where only a device can settle it.
func value(memory *int64) int64 {
	if memory == nil {
		return 0
	}
	return *memory
}
