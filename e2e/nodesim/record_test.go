package nodesim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/e2e/podfeed"
)

// TestOverlapsOverGap: while the watch was away one pod was reported, and then another bound. A list tells of
// both at once, in any order, and that is no overlap; two that neither is reported are one.
func TestOverlapsOverGap(t *testing.T) {
	pod := func(name string, reported bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Annotations: map[string]string{"hami.io/vgpu-devices-allocated": name},
		}}
		p.Spec.NodeName = "n"
		if reported {
			now := metav1.Now()
			p.Status.StartTime = &now
		}
		return p
	}
	s := &Simulator{
		records:  records{between: map[string]map[types.UID]waitedOn{}},
		kubelets: map[string]*kubelet{}, pods: map[types.UID]*podWorker{}, more: make(chan struct{}),
	}
	list := func(pods ...*corev1.Pod) { s.see(podfeed.Change{Pods: pods, List: true}) }
	list(pod("first", false))
	list(pod("second", false), pod("first", true))
	if o := s.Overlaps(); len(o) > 0 {
		t.Errorf("overlaps %v, want none", o)
	}
	list(pod("third", false), pod("second", false))
	if o := s.Overlaps(); len(o) != 1 {
		t.Errorf("overlaps %v, want one", o)
	}
}
