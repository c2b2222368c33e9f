// Package fit tells where pods would be scheduled: it places them one after the other on the books of a
// cluster, with the same rules as the extender, and says why one fits nowhere.
package fit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Placement is where one pod goes, or why it goes nowhere.
type Placement struct {
	Name       string            `json:"name"`
	Node       *string           `json:"node"`       // null when it fits nowhere
	Allocation [][]string        `json:"allocation"` // UUIDs by container position, null when it fits nowhere
	Reasons    map[string]string `json:"reasons,omitempty"`

	pod      *corev1.Pod
	shares   device.Allocation
	refusals []Refusal // by node, in node order
}

// Cluster is what pods are placed on. It is changed by placing pods.
type Cluster struct {
	defaults podrequest.Defaults
	book     *ledger.Book
	nodes    []*corev1.Node
	pods     map[string]*corev1.Pod // bound and live, by UID in the book
	held     native
	kept     kept
	placed   int
	scratch  placement.Scratch
}

// New returns a cluster of these nodes, bound or nominated pods and quotas. Other pods are left out.
// Of two nodes with one name the second counts. problem is called with what cannot be read, and nothing
// else is lost by it.
func New(
	nodes []*corev1.Node, pods []*corev1.Pod, quotas []*corev1.ResourceQuota,
	d podrequest.Defaults, problem func(object string, err error),
) *Cluster {
	c := &Cluster{defaults: d, book: ledger.New(), pods: map[string]*corev1.Pod{}, held: native{}}
	c.kept.begin(d, c.book)
	position := map[string]int{}
	for _, node := range nodes {
		node, assumed := withAllocatable(node)
		if assumed != nil {
			problem("Node "+node.Name, assumed)
		}
		facts := kube.Node(node)
		if facts.Unreadable != "" {
			problem("Node "+node.Name, errors.New(facts.Unreadable))
		}
		c.book.SetNode(facts)
		if at, known := position[node.Name]; known {
			c.nodes[at] = nil
		}
		position[node.Name] = len(c.nodes)
		c.nodes = append(c.nodes, node)
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(n *corev1.Node) bool { return n == nil })
	for _, quota := range quotas {
		facts, err := kube.Quota(quota)
		if err != nil {
			problem("ResourceQuota "+quota.Namespace+"/"+quota.Name, err)
		}
		c.book.SetQuota(facts)
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			c.kept.observe(pod)
			continue
		}
		facts := kube.LedgerPod(pod, d.Release)
		facts.UID = uid(pod)
		if c.book.Pod(facts.UID) != nil {
			continue // given twice
		}
		if facts.Unreadable != "" {
			problem("Pod "+pod.Namespace+"/"+pod.Name, errors.New(facts.Unreadable))
		}
		c.book.Observe(facts)
		if facts.First != phase.None {
			c.held.add(pod.Spec.NodeName, pod)
			c.pods[facts.UID] = pod
			c.kept.set.Bound(facts.UID, pod)
		}
	}
	return c
}

// Nodes returns the number of nodes.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Place books a pod on the best node on which it fits, first by score, then by the order of the nodes.
// The error is about the pod itself and names the field.
func (c *Cluster) Place(pod *corev1.Pod) (*Placement, error) {
	request, err := c.Parse(pod)
	if err != nil {
		return nil, err
	}
	if _, err := kube.Release(pod, c.defaults.Release); err != nil {
		return nil, err
	}
	result := &Placement{Name: pod.Name, pod: pod}
	fits, refusals := c.Ask(pod, request)
	result.refusals = refusals
	for _, node := range fits {
		allocation, err := c.bookOn(node, pod, request)
		if err != nil {
			result.refusals = append(result.refusals, *plain(node, err.Error(), ""))
			continue
		}
		result.place(node, allocation)
		c.held.add(node, pod)
		c.kept.placed(pod, node)
		return result, nil
	}
	result.Reasons = map[string]string{}
	for _, r := range result.refusals {
		result.Reasons[r.Node] = r.Sentence
	}
	return result, nil
}

// Ask returns the nodes on which a pod fits, best first, and the refusals of the others in the order of the nodes. It
// looks at no quota and books nothing.
func (c *Cluster) Ask(pod *corev1.Pod, request *podrequest.Request) (fits []string, refusals []Refusal) {
	c.kept.face(request)
	scores := map[string]float64{}
	for _, node := range c.nodes {
		score, refused := c.fit(node, pod, request)
		if refused != nil {
			refusals = append(refusals, *refused)
			continue
		}
		fits, scores[node.Name] = append(fits, node.Name), score
	}
	slices.SortStableFunc(fits, func(x, y string) int { return cmp.Compare(scores[y], scores[x]) })
	return fits, refusals
}

// fit rates a node for a pod, or says why the pod does not fit there.
func (c *Cluster) fit(node *corev1.Node, pod *corev1.Pod, request *podrequest.Request) (float64, *Refusal) {
	if sentence := unschedulable(node, pod); sentence != "" {
		return 0, plain(node.Name, sentence, "")
	}
	if !request.Devices {
		return 0, nil
	}
	view := c.View(node.Name)
	score, refusal := nodefit.Fit(&c.scratch, request, view, "", nil)
	switch refusal.Kind {
	case nodefit.None:
	case nodefit.Devices:
		name := func(position int) string { return kube.Container(&pod.Spec, position).Name }
		words := Words{name, &request.Placement.Selector, view.Devices}
		return 0, words.refuse(node.Name, placement.Explain(view.Placement(), request.Placement))
	default:
		return 0, plain(node.Name, refusal.Reason, ": "+view.Unreadable)
	}
	if lacks := c.lacks(node, pod); lacks != nil {
		return 0, lacks.refusal(node.Name)
	}
	return score, nil
}

// bookOn books the pod on a node, quota included.
func (c *Cluster) bookOn(node string, pod *corev1.Pod, request *podrequest.Request) (device.Allocation, error) {
	if !request.Devices {
		return make(device.Allocation, len(kube.Classes(&pod.Spec))), nil
	}
	facts := request.Ledger
	facts.Node, facts.UID = node, fmt.Sprintf("placed-%d", c.placed) // a pod may be given twice
	c.placed++
	allocation, _, err := c.book.Assume(facts, func(v *ledger.View) (device.Allocation, error) {
		var s placement.Scratch
		if _, refusal := nodefit.Fit(&s, request, c.kept.view(v), "", nil); refusal.Refused() {
			return nil, errors.New(refusal.Reason)
		}
		return s.Allocation(), nil
	})
	if over := (*ledger.QuotaError)(nil); errors.As(err, &over) {
		return nil, over
	}
	return allocation, err
}

func (p *Placement) place(node string, allocation device.Allocation) {
	p.Node, p.shares, p.refusals = &node, allocation, nil
	p.Allocation = make([][]string, len(allocation))
	for i, shares := range allocation {
		p.Allocation[i] = []string{}
		for _, s := range shares {
			p.Allocation[i] = append(p.Allocation[i], s.UUID)
		}
	}
}
