package nodesim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	f := &feed{sim: s, pods: map[types.UID]*corev1.Pod{}, synced: make(chan struct{})}
	feedAll := func(objects ...any) {
		t.Helper()
		if err := f.Replace(objects, ""); err != nil {
			t.Fatal(err)
		}
	}
	feedAll(pod("first", false))
	feedAll(pod("second", false), pod("first", true))
	if o := s.Overlaps(); len(o) > 0 {
		t.Errorf("overlaps %v, want none", o)
	}
	feedAll(pod("third", false), pod("second", false))
	if o := s.Overlaps(); len(o) != 1 {
		t.Errorf("overlaps %v, want one", o)
	}
}
