package requeue

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// nominatedPod returns a pod of priority 100 for which kube-scheduler has evicted others from a node, "" for none yet.
func nominatedPod(name, node string, mib int64) *corev1.Pod {
	priority := int32(100)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.Priority, p.Status.NominatedNodeName = &priority, node
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
	}}}}
	return p
}

func read(t *testing.T, pod *corev1.Pod) *podrequest.Request {
	t.Helper()
	p, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// filter is Filter's own look at a node, which remembers a pod that it refuses.
func (s *shop) filter(t *testing.T, p *podrequest.Request, node string) bool {
	t.Helper()
	mark := s.FilterStarts()
	if fits(p, s.kept.Before(p).View(&placement.Scratch{}, s.book.Node(node))) {
		s.FilterEnds(mark, p, nil)
		return true
	}
	s.FilterEnds(mark, p, []string{node})
	return false
}

// Room that is kept for a nominated pod wakes that pod and nobody behind it, until it is kept no more: Filter would
// refuse whoever else is woken, who would be woken again for it, and so on.
func TestKeptRoomWakesNobodyElse(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 9000)
	low := wants("low", 6000)
	s.refuse(low, "n")
	first := nominatedPod("first", "", 6000)
	s.refuse(read(t, first), "n") // before it was nominated
	s.kept.Observe(nominatedPod("first", "n", 6000))
	s.leave("h")
	s.want(t, "first")
	for range 3 { // as with every event that has kube-scheduler look again
		if s.filter(t, low, "n") {
			t.Fatal("it takes the room that is kept")
		}
		s.want(t)
	}
	// What is left beside it is not kept.
	s.refuse(wants("small", 4000), "n")
	s.hold("x", "n", 1)
	s.leave("x")
	s.want(t)
	s.hold("first", "n", 6000) // its binding
	s.Forget("first")
	s.kept.Observe(func() *corev1.Pod { p := nominatedPod("first", "n", 6000); p.Spec.NodeName = "n"; return p }())
	s.want(t, "small")
	s.leave("first")
	s.want(t, "low")
}

// Of pods that are alike and of the same priority the nominated one is woken, although the other waits for longer and
// has no room; and the other when the nomination is taken back.
func TestNominatedAmongItsLikes(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 9000)
	s.refuse(read(t, nominatedPod("older", "", 6000)), "n")
	s.refuse(read(t, nominatedPod("nominated", "", 6000)), "n")
	s.kept.Observe(nominatedPod("nominated", "n", 6000))
	s.leave("h")
	s.want(t, "nominated")
	s.Unclaimed("nominated") // it is deleted, say
	s.want(t)
	s.kept.Observe(nominatedPod("nominated", "", 6000))
	s.want(t, "older")
}

// Two that were nominated to one node, with room for one.
func TestTwoNominatedToOneNode(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 9000)
	for _, name := range []string{"b", "a"} {
		s.refuse(read(t, nominatedPod(name, "", 6000)), "n")
		s.kept.Observe(nominatedPod(name, "n", 6000))
	}
	s.leave("h")
	s.want(t, "a")
	if !s.filter(t, read(t, nominatedPod("a", "n", 6000)), "n") || s.filter(t, read(t, nominatedPod("b", "n", 6000)), "n") {
		t.Error("Filter decides otherwise")
	}
	s.want(t)
}

// One that was nominated when it was refused and is no more: those who never were are not taken for its likes.
func TestNominatedNoMore(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 9000)
	s.refuse(read(t, nominatedPod("a", "n", 11000)), "n")
	s.refuse(read(t, nominatedPod("b", "", 6000)), "n")
	s.kept.Observe(nominatedPod("c", "n", 6000))
	s.leave("h")
	s.want(t)
}

// As after a large job has had as many evicted: what is known of the nominated is not known once for each of them.
func TestManyNominated(t *testing.T) {
	const many = 1000
	nodes := make([]string, many)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
	}
	s := newShop(nodes...)
	for i, node := range nodes {
		s.hold(fmt.Sprint("h", i), node, 9000)
		s.refuse(read(t, nominatedPod(fmt.Sprint("p", i), "", 6000)), nodes...)
		s.kept.Observe(nominatedPod(fmt.Sprint("p", i), node, 6000))
	}
	s.leave("h7")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.want(t, "p7")
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 20 {
		t.Errorf("a pass over %d nominated pods took %d MiB", many, n)
	}
}
