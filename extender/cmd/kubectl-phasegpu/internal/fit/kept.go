package fit

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// kept is the room that is kept for nominated pods, as the extender keeps it.
type kept struct {
	set     *nominated.Set
	pods    map[string]*corev1.Pod // by UID: nominated, and without a node
	ahead   nominated.Ahead        // of the pod that was asked about last
	views   map[string]view        // by node: as it is for that pod
	scratch placement.Scratch
}

// view is a node of the book, and as it is for a pod.
type view struct{ book, pod *ledger.View }

func (k *kept) begin(d podrequest.Defaults, book *ledger.Book) {
	k.pods, k.set = map[string]*corev1.Pod{}, nominated.New(d, book, nil)
}

// observe takes a pod without a node.
func (k *kept) observe(pod *corev1.Pod) {
	if pod.Status.NominatedNodeName == "" {
		return
	}
	named := *pod
	named.UID = types.UID(uid(pod))
	k.set.Observe(&named)
	k.pods[uid(pod)] = &named
}

// placed takes that a pod, nominated or not, has a node now.
func (k *kept) placed(pod *corev1.Pod, node string) {
	bound := *pod
	bound.UID, bound.Spec.NodeName = types.UID(uid(pod)), node
	k.set.Observe(&bound)
}

// face has views be as they are for a pod.
func (k *kept) face(r *podrequest.Request) { k.ahead, k.views = k.set.Ahead(r), map[string]view{} }

// view returns a node of the book as it is for the pod: pods for which room is kept there are entries, too.
func (k *kept) view(v *ledger.View) *ledger.View {
	if v == nil {
		return nil
	}
	if known := k.views[v.Name]; known.book == v {
		return known.pod
	}
	with := k.ahead.View(&k.scratch, v)
	k.views[v.Name] = view{v, with}
	return with
}

// uid is the UID of a pod in the books. A file's pods may have none.
func uid(pod *corev1.Pod) string {
	if pod.UID == "" {
		return pod.Namespace + "/" + pod.Name
	}
	return string(pod.UID)
}
