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
func (f *fixture) filter(t *testing.T, p *podrequest.Request, node string) bool {
	t.Helper()
	mark := f.FilterStarts()
	if fits(p, f.kept.Before(p).View(&placement.Scratch{}, f.book.Node(node))) {
		f.FilterEnds(mark, p, nil)
		return true
	}
	f.FilterEnds(mark, p, []string{node})
	return false
}

// Room that is kept for a nominated pod wakes that pod and nobody behind it, until it is kept no more: Filter would
// refuse whoever else is woken, who would be woken again for it, and so on.
func TestKeptRoomWakesNobodyElse(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 9000)
	low := wants("low", 6000)
	f.refuse(low, "n")
	first := nominatedPod("first", "", 6000)
	f.refuse(read(t, first), "n") // before it was nominated
	f.kept.Observe(nominatedPod("first", "n", 6000))
	f.leave("h")
	f.want(t, "first")
	for range 3 { // as with every event that has kube-scheduler look again
		if f.filter(t, low, "n") {
			t.Fatal("it takes the room that is kept")
		}
		f.want(t)
	}
	// What is left beside it is not kept.
	f.refuse(wants("small", 4000), "n")
	f.hold("x", "n", 1)
	f.leave("x")
	f.want(t)
	f.hold("first", "n", 6000) // its binding
	f.Remove("first")
	f.kept.Observe(func() *corev1.Pod { p := nominatedPod("first", "n", 6000); p.Spec.NodeName = "n"; return p }())
	f.want(t, "small")
	f.leave("first")
	f.want(t, "low")
}

// Of pods that are alike and of the same priority the nominated one is woken, although the other waits for longer and
// has no room; and the other when the nomination is taken back.
func TestNominatedAmongItsLikes(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 9000)
	f.refuse(read(t, nominatedPod("older", "", 6000)), "n")
	f.refuse(read(t, nominatedPod("nominated", "", 6000)), "n")
	f.kept.Observe(nominatedPod("nominated", "n", 6000))
	f.leave("h")
	f.want(t, "nominated")
	f.NudgeDone("nominated", resultGone) // it is deleted, say
	f.want(t)
	f.kept.Observe(nominatedPod("nominated", "", 6000))
	f.want(t, "older")
}

// Two that were nominated to one node, with room for one.
func TestTwoNominatedToOneNode(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 9000)
	for _, name := range []string{"b", "a"} {
		f.refuse(read(t, nominatedPod(name, "", 6000)), "n")
		f.kept.Observe(nominatedPod(name, "n", 6000))
	}
	f.leave("h")
	f.want(t, "a")
	if !f.filter(t, read(t, nominatedPod("a", "n", 6000)), "n") || f.filter(t, read(t, nominatedPod("b", "n", 6000)), "n") {
		t.Error("Filter decides otherwise")
	}
	f.want(t)
}

// One that was nominated when it was refused and is no more: those who never were are not taken for its likes.
func TestNominatedNoMore(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 9000)
	f.refuse(read(t, nominatedPod("a", "n", 11000)), "n")
	f.refuse(read(t, nominatedPod("b", "", 6000)), "n")
	f.kept.Observe(nominatedPod("c", "n", 6000))
	f.leave("h")
	f.want(t)
}

// As after a large job has had as many evicted: what is known of the nominated is not known once for each of them.
func TestManyNominated(t *testing.T) {
	const many = 1000
	nodes := make([]string, many)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
	}
	f := newFixture(nodes...)
	for i, node := range nodes {
		f.hold(fmt.Sprint("h", i), node, 9000)
		f.refuse(read(t, nominatedPod(fmt.Sprint("p", i), "", 6000)), nodes...)
		f.kept.Observe(nominatedPod(fmt.Sprint("p", i), node, 6000))
	}
	f.leave("h7")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.want(t, "p7")
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 20 {
		t.Errorf("a pass over %d nominated pods took %d MiB", many, n)
	}
}
