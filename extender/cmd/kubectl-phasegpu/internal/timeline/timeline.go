// Package timeline lists the phases of a pod as they pass: which containers run in each, what they hold, what has
// been released when, in which phase the pod is, and what ran again.
package timeline

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Report is the JSON document. Times are those of the pod's status, whole seconds; what it does not say is null.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"` // "" while it has none
	Release   string `json:"release"`
	// Current is the index of the phase that the pod is in; null while it has no node and when it has ended.
	Current      *int       `json:"current"`
	Ended        bool       `json:"ended"`
	Created      *time.Time `json:"created"`
	Bound        *time.Time `json:"bound"`        // to its node
	Started      *time.Time `json:"started"`      // accepted by kubelet
	SandboxReady *time.Time `json:"sandboxReady"` // the present one
	Phases       []Phase    `json:"phases"`
	Releases     []Release  `json:"releases"` // in order of time; of this cycle
	Reruns       []Rerun    `json:"reruns"`   // by container position
	Notes        []string   `json:"notes"`

	now time.Time
}

// State is where a phase stands.
type State string

// The states of a phase.
const (
	Over    State = "over"
	Current State = "current"
	Ahead   State = "ahead"
	Failed  State = "failed" // its init container, with which the pod gave up
)

// Phase is one phase of the pod.
type Phase struct {
	Name  string     `json:"name"` // its init container's, the last one "steady"
	State State      `json:"state"`
	From  *time.Time `json:"from"`
	To    *time.Time `json:"to"`
	Alive []string   `json:"alive"` // containers, in position order
	// Holds is what these hold of each device; without a node, what they ask for, by family.
	Holds []Holding `json:"holds"`
	// Reserved is what the books charge while the pod is in this phase, by its release policy.
	Reserved []Holding `json:"reserved"`
}

// Holding is an amount of one device, or of a family while no device is chosen. A memory amount that only a device
// can settle is null.
type Holding struct {
	UUID      string `json:"uuid"` // "" for a family
	Family    string `json:"family"`
	Slots     int64  `json:"slots"`
	MemoryMiB *int64 `json:"memoryMiB"`
	Cores     int64  `json:"cores"`
}

// Release is what the end of a phase gave back, or will.
type Release struct {
	After string     `json:"after"` // the init container, "" for the pod's end
	Done  bool       `json:"done"`
	At    *time.Time `json:"at"` // null while it is to come, and when the status does not say
	Gives []Holding  `json:"gives"`
}

// Rerun is a container that has run before.
type Rerun struct {
	Container string     `json:"container"`
	Class     string     `json:"class"`
	Restarts  int32      `json:"restarts"`
	LastExit  *int32     `json:"lastExit"` // of the run before
	LastEnd   *time.Time `json:"lastEnd"`
	// Earlier means that the record is of an earlier cycle: the init container will run again.
	Earlier bool `json:"earlier"`
}

// New returns the timeline of a pod under a release policy, which the pod's annotation overrides. The error names the
// field.
func New(pod *corev1.Pod, byDefault phase.Release, now time.Time) (*Report, error) {
	explained, err := explain.Pod(pod, byDefault)
	if err != nil {
		return nil, err
	}
	release, err := kube.Release(pod, byDefault)
	if err != nil {
		return nil, err
	}
	allocation, err := kube.Allocation(pod)
	if err != nil {
		allocation = nil // the pod has ended or has none, else explain would have failed
	}
	t := facts{
		pod: pod, classes: kube.Classes(&pod.Spec), allocation: allocation, release: release, status: kube.Status(pod),
	}
	t.progress = t.classes.Progress(t.status)
	r := &Report{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Release: release.String(),
		Ended: t.progress.Terminal, now: now, Created: moment(pod.CreationTimestamp.Time),
		Phases: []Phase{}, Releases: []Release{}, Reruns: []Rerun{}, Notes: []string{},
	}
	if pod.Status.StartTime != nil {
		r.Started = moment(pod.Status.StartTime.Time)
	}
	r.Bound = moment(report.BoundAt(pod))
	if t.status.Sandbox == phase.SandboxReady {
		r.SandboxReady = moment(t.status.SandboxReadyAt)
	}
	if pod.Spec.NodeName != "" && !r.Ended {
		r.Current = &t.progress.Inits
	}
	for k, e := range explained.Phases {
		p := Phase{Name: e.Name, Alive: e.Alive, State: t.state(k)}
		p.From, p.To = t.times(k)
		if pod.Spec.NodeName == "" {
			p.Holds = t.asked(explained, k)
			p.Reserved = []Holding{}
		} else {
			p.Holds = t.footprint(k)
			p.Reserved = t.reserved(t.classes.First(phase.Progress{Inits: k}, release))
		}
		r.Phases = append(r.Phases, p)
	}
	if pod.Spec.NodeName != "" {
		r.Releases = t.releases()
	}
	r.Reruns = t.reruns()
	r.Notes = append(r.Notes, t.notes(r)...)
	return r, nil
}

// facts are what is known of the pod.
type facts struct {
	pod        *corev1.Pod
	classes    phase.Pod
	allocation device.Allocation
	release    phase.Release
	status     phase.Status
	progress   phase.Progress
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (t *facts) state(k int) State {
	switch {
	case t.pod.Spec.NodeName == "":
		return Ahead
	case k < t.progress.Inits, t.progress.Terminal && k == t.progress.Inits && k == t.classes.Steady():
		return Over
	case k == t.progress.Inits && !t.progress.Terminal:
		return Current
	case k == t.progress.Inits && t.status.State(t.classes.InitPosition(k)).Terminated:
		return Failed
	}
	return Ahead
}

// times returns when a phase began and ended: of an init container's what its status says, if that is of this
// cycle; the steady state begins with its first app, and ends with its last.
func (t *facts) times(k int) (from, to *time.Time) {
	if t.state(k) == Ahead {
		return nil, nil
	}
	if turn := t.classes.InitPosition(k); turn >= 0 {
		s := t.status.State(turn)
		if s.Terminated && (t.state(k) == Current && s.ExitCode == 0 || s.FinishedAt.Before(t.status.SandboxReadyAt)) {
			return nil, nil // of an earlier cycle
		}
		from = moment(s.StartedAt)
		if t.state(k) != Current {
			to = moment(s.FinishedAt)
		}
		return from, to
	}
	var first, last time.Time
	for i, c := range t.classes {
		s := t.status.State(i)
		if c != phase.App || s.StartedAt.IsZero() {
			continue
		}
		if first.IsZero() || s.StartedAt.Before(first) {
			first = s.StartedAt
		}
		if s.FinishedAt.After(last) {
			last = s.FinishedAt
		}
	}
	if t.state(k) == Over {
		to = moment(last)
	}
	return moment(first), to
}

// footprint is what the containers that are alive in a phase hold of each device.
func (t *facts) footprint(k int) []Holding {
	holdings := []Holding{}
	for position, shares := range t.allocation {
		if !t.classes.Alive(k, position) {
			continue
		}
		for _, s := range shares {
			at := slices.IndexFunc(holdings, func(h Holding) bool { return h.UUID == s.UUID && h.Family == s.Family })
			if at < 0 {
				at = len(holdings)
				holdings = append(holdings, Holding{UUID: s.UUID, Family: s.Family, MemoryMiB: new(int64)})
			}
			h := &holdings[at]
			h.Slots, h.Cores = h.Slots+s.Amount.Slots, h.Cores+s.Amount.Cores
			*h.MemoryMiB += s.Amount.MemoryMiB
		}
	}
	return holdings
}

// asked is what the containers that are alive in a phase ask for, by family.
func (t *facts) asked(e *explain.Explanation, k int) []Holding {
	holdings := []Holding{}
	for position, c := range e.Containers {
		if c.Devices == 0 || !t.classes.Alive(k, position) {
			continue
		}
		at := slices.IndexFunc(holdings, func(h Holding) bool { return h.Family == c.Family })
		if at < 0 {
			at = len(holdings)
			holdings = append(holdings, Holding{Family: c.Family, MemoryMiB: new(int64)})
		}
		h, n := &holdings[at], int64(c.Devices)
		h.Slots, h.Cores = h.Slots+n, h.Cores+n*c.Cores
		if c.MemoryMiB == nil {
			h.MemoryMiB = nil
		} else if h.MemoryMiB != nil {
			*h.MemoryMiB += n * *c.MemoryMiB
		}
	}
	return holdings
}

// reserved is what the books charge when the first phase that remains is first.
func (t *facts) reserved(first int) []Holding {
	now, _ := t.classes.Reserved(t.allocation, first) // explain has checked it
	holdings := []Holding{}
	for _, d := range now.Devices {
		holdings = append(holdings, Holding{d.UUID, d.Family, d.Slots, &d.MemoryMiB, d.Cores})
	}
	return holdings
}
