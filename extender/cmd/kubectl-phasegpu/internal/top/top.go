// Package top lists nodes, devices and namespaces: what they have, what is reserved of it, and what will be when the
// init containers that are still to run have ended.
package top

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Amounts are what there is to say of a device, or of many together. Reserved is the sum of Steady and Releasable.
type Amounts struct {
	Capacity report.Amount `json:"capacity"`
	Reserved report.Amount `json:"reserved"` // by the remaining phases of the pods there
	// Steady is what will remain reserved when the init containers of these pods have ended; a pod whose release
	// policy is hold keeps its peak.
	Steady report.Amount `json:"steady"`
	// Releasable is what will be free again by then.
	Releasable report.Amount `json:"releasable"`
	// Free is capacity less what is reserved, of each device by itself; nothing where more is reserved than there is.
	Free report.Amount `json:"free"`
}

// Node is one node's devices of one family.
type Node struct {
	Name    string `json:"name"`
	Family  string `json:"family"`
	Devices int    `json:"devices"`
	Pods    int    `json:"pods"` // that hold something of them
	Amounts
	// Notes say why it, or some of its devices, take no new pods, and what is reserved beyond capacity.
	Notes []string `json:"notes"`
}

// Device is one device.
type Device struct {
	Node   string `json:"node"`
	UUID   string `json:"uuid"`
	Index  int    `json:"index"`
	Family string `json:"family"`
	Model  string `json:"model"`
	Pods   int    `json:"pods"`
	Amounts
	Notes []string `json:"notes"`
}

// Namespace is what one namespace is charged for one family: devices (slots), MiB × devices and percent × devices.
type Namespace struct {
	Name    string `json:"name"`
	Family  string `json:"family"`
	Pods    int    `json:"pods"`    // that are charged
	Waiting int    `json:"waiting"` // that ask for the family and have no node yet
	// Reserved, Steady and Releasable as of devices; a namespace is charged the largest phase of each pod.
	Reserved   report.Amount `json:"reserved"`
	Steady     report.Amount `json:"steady"`
	Releasable report.Amount `json:"releasable"`
	// Limits are the lines of its quotas, in MiB or percent.
	Limits []Limit `json:"limits"`
}

// Limit is one line of a ResourceQuota.
type Limit struct {
	Quota    string `json:"quota"`
	Resource string `json:"resource"`
	Used     int64  `json:"used"`
	Max      int64  `json:"max"`

	dimension ledger.Dimension
}

// Sum is what all lines of a family come to.
type Sum struct {
	Family  string `json:"family"`
	Lines   int    `json:"lines"` // of the list: nodes, devices or namespaces
	Devices int    `json:"devices"`
	Pods    int    `json:"pods"`
	Waiting int    `json:"waiting"`
	Amounts
}

// Report is the JSON document: one of the lists, and its sums by family.
type Report struct {
	Nodes      []Node      `json:"nodes,omitempty"`
	Devices    []Device    `json:"devices,omitempty"`
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Sums       []Sum       `json:"sums"`
}

// Tally collects objects.
type Tally struct {
	release phase.Release
	// now is the books as they are, and then what they will be when the init containers have ended.
	now, then *ledger.Book
	waiting   map[string]map[string]int // by namespace and family
	problem   func(object string, err error)
}

// New returns a tally without objects. release is the policy of pods that name none; problem is called with what
// cannot be read, and nothing else is lost by it.
func New(release phase.Release, problem func(object string, err error)) *Tally {
	return &Tally{
		release: release, now: ledger.New(), then: ledger.New(), waiting: map[string]map[string]int{}, problem: problem,
	}
}

// AddNode adds a node.
func (t *Tally) AddNode(node *corev1.Node) {
	truth := kube.Node(node)
	if err := kube.NodeProblem(&truth); err != nil {
		t.problem("Node "+node.Name, err)
	}
	t.now.SetNode(truth)
	t.then.SetNode(truth)
}

// AddQuota adds a ResourceQuota.
func (t *Tally) AddQuota(quota *corev1.ResourceQuota) {
	truth, err := kube.Quota(quota)
	if err != nil {
		t.problem("ResourceQuota "+quota.Namespace+"/"+quota.Name, err)
	}
	t.now.SetQuota(truth)
}

// AddPod adds a pod.
func (t *Tally) AddPod(pod *corev1.Pod) {
	truth := kube.LedgerPod(pod, t.release)
	if truth.First == phase.None {
		return
	}
	if truth.UID == "" {
		truth.UID = pod.Namespace + "/" + pod.Name // of a file
	}
	if truth.Node == "" {
		t.wait(pod)
		return
	}
	if err := kube.PodProblem(pod, &truth, t.release); err != nil {
		t.problem("Pod "+pod.Namespace+"/"+pod.Name, err)
	}
	t.now.Observe(truth)
	release, _ := kube.Release(pod, t.release) // of one that cannot be read it is hold
	truth.First = truth.Classes.First(phase.Progress{Inits: truth.Classes.Steady()}, release)
	t.then.Observe(truth)
}

// wait counts a pod without a node.
func (t *Tally) wait(pod *corev1.Pod) {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		t.problem("Pod "+pod.Namespace+"/"+pod.Name, err)
		return
	}
	counted := map[string]bool{}
	for _, r := range requests {
		if r.Devices == 0 || counted[r.Family] {
			continue
		}
		counted[r.Family] = true
		if t.waiting[pod.Namespace] == nil {
			t.waiting[pod.Namespace] = map[string]int{}
		}
		t.waiting[pod.Namespace][r.Family]++
	}
}

// amounts returns what there is to say of the device at an index of a node's books.
func amounts(now, then *ledger.View, i int) Amounts {
	capacity, held := report.Amount(now.Devices[i].Capacity), report.Amount(now.Held[i].Amount)
	steady := report.Amount{}
	if then != nil && i < len(then.Held) {
		steady = report.Amount(then.Held[i].Amount)
	}
	return Amounts{capacity, held, steady, held.Minus(steady), capacity.Minus(held).Positive()}
}

// add adds what b says.
func (a *Amounts) add(b Amounts) {
	a.Capacity, a.Reserved, a.Steady = a.Capacity.Plus(b.Capacity), a.Reserved.Plus(b.Reserved), a.Steady.Plus(b.Steady)
	a.Releasable, a.Free = a.Releasable.Plus(b.Releasable), a.Free.Plus(b.Free)
}
