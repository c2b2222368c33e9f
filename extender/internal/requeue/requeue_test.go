package requeue

import (
	"fmt"
	"iter"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// fixture is a Queue with a real ledger, whose passes run when the test says so.
type fixture struct {
	*Queue
	book   sample.Book
	kept   *nominated.Set
	now    time.Time
	gate   int
	mu     sync.Mutex
	nudged []string
	later  func() // what ends the hold on the last nudged pod's room
}

func newFixture(nodes ...string) *fixture {
	f := &fixture{book: sample.NewBook(), now: time.Unix(1000, 0), gate: 8}
	for _, n := range nodes {
		card := sample.Card(n)
		card.Capacity.MemoryMiB = 10000
		f.book.SetNode(ledger.Node{Name: n, Devices: []device.Device{card}})
	}
	f.Queue = New(f.book, f, func() time.Time { return f.now }, zap.NewNop())
	f.kept = nominated.New(podrequest.Defaults{}, f.book, f.Queue)
	return f
}

func (f *fixture) Nudged(string) {}

func (f *fixture) Room(string) int { return f.gate }

func (f *fixture) Nudge(r *podrequest.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nudged = append(f.nudged, r.Name)
}

func (f *fixture) pass() (tries int) { return f.Queue.pass(f, f.kept, f) }

// hold has a running pod hold memory on a node, leave takes it away.
func (f *fixture) hold(name, node string, mib int64) { f.book.Hold(name, node, node, 0, mib) }

func (f *fixture) leave(name string) {
	d, err := f.book.Remove(name)
	if err != nil {
		panic(err)
	}
	f.Observe(d)
}

func wants(name string, mib int64) *podrequest.Request {
	return &podrequest.Request{
		UID: name, Namespace: "ns", Name: name, Devices: true, ChargesKnown: true, Shape: fmt.Sprint(mib),
		Charges: map[string]ledger.Charge{"NVIDIA": {Devices: 1, MemoryMiB: mib}},
		Ledger:  ledger.Pod{UID: name, Namespace: "ns", Name: name, Classes: phase.Pod{phase.App}},
		Placement: &placement.Pod{
			Classes: phase.Pod{phase.App}, Requests: []device.Request{{Family: "NVIDIA", Devices: 1, MemoryMiB: mib}},
		},
	}
}

// fits reports whether a pod fits on a node.
func fits(p *podrequest.Request, v *ledger.View) bool {
	_, refusal := nodefit.Fit(&placement.Scratch{}, p, v, "", nil)
	return !refusal.Refused()
}

// refuse is a Filter that refuses a pod.
func (f *fixture) refuse(p *podrequest.Request, nodes ...string) {
	f.now = f.now.Add(time.Millisecond)
	f.FilterEnds(f.FilterStarts(), p, nodes)
}

// run does the pass that is due, if one is.
func (f *fixture) run() (due bool) {
	select {
	case <-f.due:
		f.pass()
		return true
	default:
		return false
	}
}

func (f *fixture) want(t *testing.T, names ...string) {
	t.Helper()
	f.run()
	if diff := cmp.Diff(names, f.nudged); diff != "" {
		t.Errorf("nudged: %s", diff)
	}
	f.nudged = nil
}

func TestNudgedWhenThereIsRoom(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 8000)
	f.refuse(wants("p", 6000), "n")
	f.want(t)
	f.leave("h")
	f.want(t, "p")
	f.hold("h", "n", 1)
	f.leave("h")
	f.want(t) // once: kube-scheduler has it now
}

// The release becomes known after the Filter has read the books and before it has registered its
// refusal.
func TestReleaseDuringFilter(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 8000)
	p := wants("p", 6000)
	mark := f.FilterStarts()
	if fits(p, f.book.Node("n")) {
		t.Fatal("fits")
	}
	f.leave("h")
	if f.run() {
		t.Error("a pass for nobody")
	}
	f.FilterEnds(mark, p, []string{"n"})
	f.want(t, "p")
}

// The same with another Filter under way before and after, and a release of something else.
func TestReleasesDuringOverlappingFilters(t *testing.T) {
	f := newFixture("a", "b")
	f.hold("ha", "a", 8000)
	f.hold("hb", "b", 8000)
	p, q, r := wants("p", 6000), wants("q", 6000), wants("r", 6000)
	mp := f.FilterStarts()
	f.leave("ha")
	mq := f.FilterStarts()
	f.FilterEnds(mp, p, []string{"a"}) // read a before the release
	f.leave("hb")
	mr := f.FilterStarts()
	f.FilterEnds(mq, q, []string{"b"})
	f.want(t, "p", "q")
	f.FilterEnds(mr, r, []string{"a", "b"}) // read after both: whatever refused it, nothing was released since
	f.want(t)
	if f.filters != 0 || len(f.meanwhile) != 0 {
		t.Errorf("%d open, %d noted", f.filters, len(f.meanwhile))
	}
}

// Room for one wakes one: by priority, then by how long it has waited.
func TestNoStorm(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 10000)
	for i := range 1000 {
		f.refuse(wants(fmt.Sprint("p", i), 6000), "n")
	}
	vip := wants("vip", 6000)
	vip.Priority = 1
	f.refuse(vip, "n")
	f.refuse(wants("p0", 6000), "n") // again: it keeps its place
	f.leave("h")
	f.want(t, "vip")
	f.NudgeDone("vip", resultGone) // it was deleted meanwhile
	f.want(t, "p0")
	if f.Waiting() != 999 {
		t.Errorf("%d wait", f.Waiting())
	}
}

// A panic over one pod costs that pod its nudge, whether it waits or was nudged already; the others get theirs.
func TestPanicOverOnePod(t *testing.T) {
	f := newFixture("n")
	f.hold("h", "n", 10000)
	bug := wants("bug", 1000)
	bug.Shape, bug.Placement = "bug", nil
	nudged := wants("nudged", 1000)
	nudged.Priority = 1
	for _, p := range []*podrequest.Request{bug, nudged, wants("p", 1000)} {
		f.refuse(p, "n")
	}
	f.leave("h")
	f.want(t, "nudged", "p")
	if f.Waiting() != 0 {
		t.Errorf("%d wait", f.Waiting())
	}
	nudged.Placement = nil
	f.refuse(wants("q", 1000), "n")
	f.NodeFreed("n")
	f.want(t, "q")
	if f.Queue.nudged["nudged"] != nil {
		t.Error("others are passed over for a pod that is not tried")
	}
}

func TestSmallerPodsFitBesideOrInstead(t *testing.T) {
	f := newFixture("n")
	f.hold("big", "n", 9000)
	f.hold("rest", "n", 1000)
	f.refuse(wants("nine-and-a-half", 9500), "n")
	f.refuse(wants("six", 6000), "n")
	f.refuse(wants("another six", 6000), "n")
	f.refuse(wants("three", 3000), "n")
	f.refuse(wants("one", 1000), "n")
	f.leave("big")
	f.want(t, "six", "three")
}

// A release where a pod may not go (kube-scheduler did not offer the node) neither wakes it nor is spent on
// it.
func TestOnlyNodesThatWereOffered(t *testing.T) {
	f := newFixture("a", "b")
	f.hold("ha", "a", 8000)
	f.hold("hb", "b", 8000)
	f.refuse(wants("only-b", 6000), "b")
	f.refuse(wants("only-a", 6000), "a")
	f.leave("ha")
	f.want(t, "only-a")
	f.leave("hb")
	f.want(t, "only-b")
}

func TestQuotaReleased(t *testing.T) {
	f := newFixture("a", "b")
	f.book.Limit(9000)
	f.hold("h1", "a", 4000)
	f.hold("h2", "a", 4000)
	f.refuse(wants("p", 4000), "a", "b")
	f.refuse(wants("q", 4000), "a", "b")
	f.leave("h1") // room in the namespace for one, on the nodes for both
	f.want(t, "p")
	f.book.RemoveQuota("ns", "q")
	f.free("", "ns")
	f.want(t, "q")
}

// Neither a quota nor a node alone is enough.
func TestQuotaAndNode(t *testing.T) {
	f := newFixture("a")
	f.book.Limit(9000)
	f.hold("h", "a", 9000)
	f.hold("g", "a", 100)
	f.refuse(wants("p", 9000), "a")
	f.leave("h")
	f.want(t) // the quota still has g
	f.refuse(wants("small", 8000), "a")
	f.leave("g")
	f.want(t, "p")
}

func TestGateRoom(t *testing.T) {
	f := newFixture("n")
	for i := range 4 {
		f.refuse(wants(fmt.Sprint("p", i), 100), "n")
	}
	f.gate = 0
	f.NodeFreed("n")
	f.want(t)
	f.gate = 2
	f.NodeFreed("n")
	f.want(t, "p0", "p1")
}

// A percentage is charged by the card.
func TestUnsettledCharge(t *testing.T) {
	f := newFixture("n")
	f.book.Limit(4999)
	p := wants("p", 0)
	p.ChargesKnown, p.Charges = false, map[string]ledger.Charge{"NVIDIA": {Devices: 1}}
	p.Placement.Requests[0].MemoryPercent = 50
	f.refuse(p, "n")
	f.free("n", "ns")
	f.want(t)
	f.book.Limit(5000)
	f.free("", "ns")
	f.want(t, "p")
}

func TestForgotten(t *testing.T) {
	f := newFixture("n")
	f.refuse(wants("bound", 1), "n")
	f.refuse(wants("passed", 1), "n")
	f.refuse(wants("gone", 1), "n")
	f.Remove("bound")
	f.FilterEnds(f.FilterStarts(), wants("passed", 1), nil)
	f.now = f.now.Add(Stale)
	f.refuse(wants("fresh", 1), "n")
	f.NodeFreed("n")
	f.want(t, "fresh")
}

func TestSet(t *testing.T) {
	var n numbers
	var all []string
	for i := range 5000 {
		all = append(all, fmt.Sprint(i))
	}
	whole := n.set(all)
	some := []string{"0", "63", "64", "4999", "one more"}
	set := n.set(some)
	read := func(ids iter.Seq[int]) (names []string) {
		for id := range ids {
			names = append(names, n.names[id])
		}
		return names
	}
	for what, test := range map[string]struct {
		ids  iter.Seq[int]
		want []string
	}{
		"all of it":             {set.members(nil, nil), some},
		"those also in another": {set.members(whole, nil), some[:4]},
		"those not in another":  {set.members(nil, whole), some[4:]},
		"of few, few":           {whole.members(set, n.set([]string{"63"})), []string{"0", "64", "4999"}},
		"in none":               {set.members(n.set(nil).with(1), nil), nil},
	} {
		if diff := cmp.Diff(test.want, read(test.ids)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if set == nil {
		t.Error("nil stands for all nodes")
	}
}

// Filters that book what fits, and releases, at random and at once: in the end nobody waits who fits.
func TestNobodyIsLeftBehind(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	nodes := []string{"a", "b", "c"}
	f := newFixture(nodes...)
	pods := map[string]*podrequest.Request{}
	var running sync.WaitGroup
	for i := range 30 {
		name := fmt.Sprint("h", i)
		f.hold(name, nodes[i%3], 1000)
		running.Go(func() { f.leave(name) })
	}
	r := rand.New(rand.NewSource(seed))
	for i := range 60 {
		p := wants(fmt.Sprint("p", i), int64(1000*(1+r.Intn(3))))
		pods[p.Name] = p
		running.Go(func() { f.try(p, nodes) })
	}
	running.Wait()
	for f.run() || len(f.nudged) > 0 {
		nudged := f.nudged
		f.nudged = nil
		for _, name := range nudged {
			f.try(pods[name], nodes)
		}
	}
	for _, p := range f.refused {
		for _, n := range nodes {
			if fits(p.Request, f.book.Node(n)) {
				t.Errorf("%s waits and fits on %s", p.Name, n)
			}
		}
	}
	if booked := len(f.book.Pods()); booked+len(f.refused) != 60 {
		t.Errorf("%d booked and %d waiting of 60", booked, len(f.refused))
	}
}

// Room for which a pod was nudged that then does not take it goes to the next one.
func TestRoomThatANudgedPodDoesNotTake(t *testing.T) {
	for name, turn := range map[string]func(f *fixture){
		"it was deleted while it waited": func(f *fixture) { f.NudgeDone("first", resultGone) },
		"kube-scheduler has it on other nodes now": func(f *fixture) {
			f.hold("h", "other", 8000)
			f.refuse(wants("first", 6000), "other")
		},
		"kube-scheduler finds no node to ask for": func(f *fixture) { f.later() },
		"it was bound elsewhere": func(f *fixture) {
			f.FilterEnds(f.FilterStarts(), wants("first", 6000), nil)
			f.hold("first", "other", 6000)
			f.Remove("first")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture("n", "other")
			f.after = func(_ time.Duration, lapse func()) { f.later = lapse }
			f.hold("h", "n", 8000)
			f.refuse(wants("first", 6000), "n")
			f.refuse(wants("next", 6000), "n")
			f.leave("h")
			f.want(t, "first")
			turn(f)
			f.want(t, "next")
			f.want(t)
		})
	}
}

// Who was passed over is not nudged when the room is taken.
func TestRoomThatANudgedPodTakes(t *testing.T) {
	f := newFixture("n")
	f.after = func(_ time.Duration, lapse func()) { f.later = lapse }
	f.hold("h", "n", 8000)
	f.refuse(wants("first", 6000), "n")
	f.refuse(wants("next", 6000), "n")
	f.leave("h")
	f.want(t, "first")
	f.FilterEnds(f.FilterStarts(), wants("first", 6000), nil)
	f.want(t)
	f.hold("first", "n", 6000)
	f.Remove("first")
	f.want(t)
	f.later()
	f.want(t)
}
