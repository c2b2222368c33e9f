package fit

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Trial is a pod that is tried on a node of the cluster, or of one that differs from it. It looks at no quota.
type Trial struct {
	Pod     *corev1.Pod
	Request *podrequest.Request // what the pod asks for, or would ask for
	// First gives the first phase from which on a pod there holds what it holds, phase.None when it is gone,
	// in place of what is; nil changes nothing.
	First func(*ledger.Entry) int
	// Device changes a device, which is a copy; nil changes nothing.
	Device func(*device.Device)
	// AnyNode leaves out taints, cordon and affinity.
	AnyNode bool
}

// Try reports whether the pod of a trial fits on a node.
func (c *Cluster) Try(node *corev1.Node, t Trial) bool {
	if !t.AnyNode && unschedulable(node, t.Pod) != "" {
		return false
	}
	view := c.View(node.Name)
	var gone []*corev1.Pod
	if t.First != nil {
		view, gone = c.then(view, t.First)
	}
	if t.Device != nil {
		changed := *view
		changed.Devices = slices.Clone(view.Devices)
		for i := range changed.Devices {
			t.Device(&changed.Devices[i])
		}
		view = &changed
	}
	_, refusal := nodefit.Fit(&c.scratch, t.Request, view, "", nil)
	return !refusal.Refused() && c.lacks(node, t.Pod, gone...) == nil
}

// then returns a node as it is when each of its pods holds its phases from first on, and the pods that are gone then.
func (c *Cluster) then(view *ledger.View, first func(*ledger.Entry) int) (then *ledger.View, gone []*corev1.Pod) {
	var ended []string // pods without a node, for which room was kept
	for _, e := range view.Pods {
		if first(e) != phase.None {
			continue
		}
		if pod := c.Pod(e); pod != nil {
			gone = append(gone, pod)
		}
		if c.Kept(e) {
			ended = append(ended, e.UID)
		}
	}
	book := c.book.Node(view.Name)
	var changed []*ledger.Entry
	for _, e := range book.Pods {
		if from := first(e); from != e.First {
			later := *e
			later.First = from
			later.Reserved, _ = e.Classes.Reserved(e.Allocation, from) // no error, else e would have a problem
			changed = append(changed, &later)
		}
	}
	// Where others hold less, the pods for which room is kept may have other devices, or find room again.
	return c.kept.ahead.Without(ended...).View(&c.kept.scratch, book.With(changed...)), gone
}

// Parse parses what a pod asks for, with the cluster's defaults.
func (c *Cluster) Parse(pod *corev1.Pod) (*podrequest.Request, error) {
	named := *pod
	named.UID = types.UID(uid(pod))
	return podrequest.Parse(&named, c.defaults)
}

// NodeList returns the nodes in their order.
func (c *Cluster) NodeList() []*corev1.Node { return c.nodes }

// View returns the book of a node as it is for the pod that was asked about last: what is kept there for those who come
// before it are entries, too. It is nil when there is neither the node nor a pod there.
func (c *Cluster) View(node string) *ledger.View { return c.kept.view(c.book.Node(node)) }

// Kept reports whether an entry of a View is a pod that has no node yet, for which room is kept.
func (c *Cluster) Kept(e *ledger.Entry) bool {
	return c.pods[e.UID] == nil && c.kept.pods[e.UID] != nil
}

// Namespace returns the book of a namespace, nil when it has neither pods nor quotas.
func (c *Cluster) Namespace(name string) *ledger.Namespace { return c.book.Namespace(name) }

// Entries returns what the books hold for pods, sorted by namespace and name.
func (c *Cluster) Entries() []*ledger.Entry { return c.book.Pods() }

// Pod returns the pod of an entry, nil when it has ended.
func (c *Cluster) Pod(e *ledger.Entry) *corev1.Pod { return cmp.Or(c.pods[e.UID], c.kept.pods[e.UID]) }

// Charges returns what its namespace is charged for a pod where it fits on a node, by family.
func (c *Cluster) Charges(node string, request *podrequest.Request) (map[string]ledger.Charge, error) {
	if _, refusal := nodefit.Fit(&c.scratch, request, c.View(node), "", nil); refusal.Refused() {
		return nil, errors.New(refusal.Reason)
	}
	return request.ChargesFor(c.scratch.Allocation())
}
