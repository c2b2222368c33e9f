package requeue

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// nominatedPod returns a pod of priority 100 that is nominated to a node, "" for none.
func nominatedPod(name, node string, mib int64) *corev1.Pod {
	return sample.Nominated(sample.Pod(name, 0, mib), 100, node)
}

func read(t *testing.T, pod *corev1.Pod) *podrequest.Request {
	t.Helper()
	r, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// filter fits a pod on a node as Filter does, and remembers it if it is refused.
func (f *fixture) filter(t *testing.T, p *podrequest.Request, node string) bool {
	t.Helper()
	mark := f.FilterStarts()
	if fits(p, f.kept.Ahead(p).View(&placement.Scratch{}, f.book.Node(node))) {
		f.FilterEnds(mark, p, nil)
		return true
	}
	f.FilterEnds(mark, p, []string{node})
	return false
}

// Room that is kept for a nominated pod requeues that pod and no other, until it is no longer kept: Filter would refuse
// the others, which would be requeued again, and so on.
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
	bound := nominatedPod("first", "n", 6000)
	bound.Spec.NodeName = "n"
	f.kept.Observe(bound)
	f.want(t, "small")
	f.leave("first")
	f.want(t, "low")
}

// Of two equal pods the nominated one is requeued, although the other has waited longer; and the other when the
// nomination is taken back.
func TestNominatedAmongEqualPods(t *testing.T) {
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
	a, b := read(t, nominatedPod("a", "n", 6000)), read(t, nominatedPod("b", "n", 6000))
	if !f.filter(t, a, "n") || f.filter(t, b, "n") {
		t.Error("Filter decides otherwise")
	}
	f.want(t)
}

// A pod that was nominated when it was refused and no longer is makes no group with pods that never were.
func TestNominatedNoMore(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 9000)
	f.refuse(read(t, nominatedPod("a", "n", 11000)), "n")
	f.refuse(read(t, nominatedPod("b", "", 6000)), "n")
	f.kept.Observe(nominatedPod("c", "n", 6000))
	f.leave("h")
	f.want(t)
}

// After a large job has had many pods evicted, a pass does not keep a copy of all nominated pods for each of them.
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
