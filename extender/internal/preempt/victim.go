package preempt

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// victim is a pod of lower priority, which may be evicted.
type victim struct {
	uid             string
	namespace, name string
	labels          labels.Set
	priority        int32
	started         time.Time     // zero when it has not
	ending          bool          // it is being deleted
	violates        bool          // a PodDisruptionBudget, by kube-scheduler's count
	entry           *ledger.Entry // what it holds of the node; set by holders
}

// lower returns the pods of lower priority that have not ended, the most important first as kube-scheduler has it:
// by priority, then those that started earlier. (Kubernetes 1.37, preemption.MoreImportantVictim for single pods.)
func lower(pods []corev1.Pod, than int32) []*victim {
	var all []*victim
	for i := range pods {
		pod := &pods[i]
		v := &victim{uid: string(pod.UID), namespace: pod.Namespace, name: pod.Name, labels: pod.Labels, ending: pod.DeletionTimestamp != nil, priority: podrequest.Priority(pod)}
		if pod.Status.StartTime != nil {
			v.started = pod.Status.StartTime.Time
		}
		if v.priority < than && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, importance)
	return all
}

// importance orders the more important first.
func importance(a, b *victim) int {
	if c := cmp.Compare(b.priority, a.priority); c != 0 {
		return c
	}
	switch {
	case a.started.IsZero() != b.started.IsZero(): // kube-scheduler takes one that has not started for one of now
		if a.started.IsZero() {
			return 1
		}
		return -1
	case !a.started.Equal(b.started):
		return a.started.Compare(b.started)
	}
	return cmp.Compare(a.uid, b.uid)
}

// holders returns those who hold something of the trial's node and are not given: those that are ending, and the
// others.
func (t *trial) holders(all []*victim) (ending, staying []*victim) {
	for _, v := range all {
		i := slices.IndexFunc(t.view.Pods, func(e *ledger.Entry) bool { return e.UID == v.uid })
		switch {
		case i < 0:
			continue
		case v.ending:
			ending = append(ending, v)
		default:
			staying = append(staying, v)
		}
		v.entry = t.view.Pods[i]
	}
	return ending, staying
}

// limit is a PodDisruptionBudget.
type limit struct {
	namespace string
	selector  labels.Selector
	allowed   int32
	disrupted map[string]metav1.Time // by name: pods whose disruption the API server has counted
}

// limitsOf reads the budgets that select something.
func limitsOf(budgets []policyv1.PodDisruptionBudget) []limit {
	var all []limit
	for i := range budgets {
		b := &budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() { // as kube-scheduler does: it then selects nothing
			continue
		}
		all = append(all, limit{namespace: b.Namespace, selector: selector, allowed: b.Status.DisruptionsAllowed, disrupted: b.Status.DisruptedPods})
	}
	return all
}

// violating marks the pods whose eviction would violate a budget: those for which it has nothing left when all these
// pods are evicted, the most important first. (Kubernetes 1.37, preemption.FilterVictimsWithPDBViolation.)
func violating(all []*victim, limits []limit) {
	left := make([]int32, len(limits))
	for i := range limits {
		left[i] = limits[i].allowed
	}
	for _, v := range all {
		for i := range limits {
			l := &limits[i]
			if _, counted := l.disrupted[v.name]; counted || l.namespace != v.namespace || len(v.labels) == 0 || !l.selector.Matches(v.labels) {
				continue
			}
			if left[i]--; left[i] < 0 {
				v.violates = true
				break
			}
		}
	}
}
