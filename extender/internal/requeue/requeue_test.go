package requeue

import (
	"fmt"
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
)

// shop is a Refused with real books, whose passes run when the test says so.
type shop struct {
	*Refused
	book   *ledger.Book
	kept   *nominated.Set
	now    time.Time
	gate   int
	mu     sync.Mutex
	nudged []string
	later  func() // the end of the last nudged pod's claim
}

func newShop(nodes ...string) *shop {
	s := &shop{book: ledger.New(), now: time.Unix(1000, 0), gate: 8}
	for _, n := range nodes {
		s.book.SetNode(ledger.Node{Name: n, Devices: []device.Device{{
			UUID: n, Family: "NVIDIA", Model: "A", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 10000, Cores: 100},
		}}})
	}
	s.kept = &nominated.Set{Booked: func(uid string) bool { return s.book.Pod(uid) != nil }, Ended: func(node string) { s.Released(node, "") }}
	s.Refused = New(s.book, s.kept, func(string) int { return s.gate }, func(p *podrequest.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.nudged = append(s.nudged, p.Name)
	}, func() time.Time { return s.now }, zap.NewNop())
	return s
}

// hold has a running pod hold memory on a node, leave takes it away: first in the books, then told.
func (s *shop) hold(name, node string, mib int64) {
	s.book.Observe(ledger.Pod{UID: name, Namespace: "ns", Name: name, Node: node, Classes: phase.Pod{phase.App},
		Allocation: device.Allocation{{{UUID: node, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}}}})
}

func (s *shop) leave(name string) {
	d, err := s.book.Remove(name)
	if err != nil {
		panic(err)
	}
	s.Observe(d)
}

func wants(name string, mib int64) *podrequest.Request {
	return &podrequest.Request{
		UID: name, Namespace: "ns", Name: name, Devices: true, ChargesKnown: true, Shape: fmt.Sprint(mib),
		Charges:   map[string]ledger.Charge{"NVIDIA": {Devices: 1, MemoryMiB: mib}},
		Ledger:    ledger.Pod{UID: name, Namespace: "ns", Name: name, Classes: phase.Pod{phase.App}},
		Placement: &placement.Pod{Classes: phase.Pod{phase.App}, Requests: []device.Request{{Family: "NVIDIA", Devices: 1, MemoryMiB: mib}}},
	}
}

// fits reports whether a pod fits on a node.
func fits(p *podrequest.Request, v *ledger.View) bool {
	_, refusal := nodefit.Fit(&placement.Scratch{}, p, v, "", nil)
	return !refusal.Refused()
}

// refuse is a Filter that refuses a pod.
func (s *shop) refuse(p *podrequest.Request, nodes ...string) {
	s.now = s.now.Add(time.Millisecond)
	s.FilterEnds(s.FilterStarts(), p, nodes)
}

// run does the pass that is due, if one is.
func (s *shop) run() (due bool) {
	select {
	case <-s.wake:
		s.pass()
		return true
	default:
		return false
	}
}

func (s *shop) want(t *testing.T, names ...string) {
	t.Helper()
	s.run()
	if diff := cmp.Diff(names, s.nudged); diff != "" {
		t.Errorf("nudged: %s", diff)
	}
	s.nudged = nil
}

func TestNudgedWhenThereIsRoom(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 8000)
	s.refuse(wants("p", 6000), "n")
	s.want(t)
	s.leave("h")
	s.want(t, "p")
	s.hold("h", "n", 1)
	s.leave("h")
	s.want(t) // once: kube-scheduler has it now
}

// Case 32: the release becomes known after the Filter has read the books and before it has registered its
// refusal.
func TestReleaseDuringFilter(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 8000)
	p := wants("p", 6000)
	mark := s.FilterStarts()
	if fits(p, s.book.Node("n")) {
		t.Fatal("fits")
	}
	s.leave("h")
	if s.run() {
		t.Error("a pass for nobody")
	}
	s.FilterEnds(mark, p, []string{"n"})
	s.want(t, "p")
}

// The same with another Filter under way before and after, and a release of something else.
func TestReleasesDuringOverlappingFilters(t *testing.T) {
	s := newShop("a", "b")
	s.hold("ha", "a", 8000)
	s.hold("hb", "b", 8000)
	p, q, r := wants("p", 6000), wants("q", 6000), wants("r", 6000)
	mp := s.FilterStarts()
	s.leave("ha")
	mq := s.FilterStarts()
	s.FilterEnds(mp, p, []string{"a"}) // read a before the release
	s.leave("hb")
	mr := s.FilterStarts()
	s.FilterEnds(mq, q, []string{"b"})
	s.want(t, "p", "q")
	s.FilterEnds(mr, r, []string{"a", "b"}) // read after both: whatever refused it, nothing was released since
	s.want(t)
	if s.open != 0 || len(s.missed) != 0 {
		t.Errorf("%d open, %d noted", s.open, len(s.missed))
	}
}

// Case 51: room for one wakes one: by priority, then by how long it has waited.
func TestNoStorm(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 10000)
	for i := range 1000 {
		s.refuse(wants(fmt.Sprint("p", i), 6000), "n")
	}
	vip := wants("vip", 6000)
	vip.Priority = 1
	s.refuse(vip, "n")
	s.refuse(wants("p0", 6000), "n") // again: it keeps its place
	s.leave("h")
	s.want(t, "vip")
	s.Unclaimed("vip") // it was deleted meanwhile
	s.want(t, "p0")
	if s.Waiting() != 999 {
		t.Errorf("%d wait", s.Waiting())
	}
}

// A panic over one pod costs that pod its nudge, whether it waits or was nudged already; the others get theirs.
func TestPanicOverOnePod(t *testing.T) {
	s := newShop("n")
	s.hold("h", "n", 10000)
	bug := wants("bug", 1000)
	bug.Shape, bug.Placement = "bug", nil
	nudged := wants("nudged", 1000)
	nudged.Priority = 1
	for _, p := range []*podrequest.Request{bug, nudged, wants("p", 1000)} {
		s.refuse(p, "n")
	}
	s.leave("h")
	s.want(t, "nudged", "p")
	if s.Waiting() != 0 {
		t.Errorf("%d wait", s.Waiting())
	}
	nudged.Placement = nil
	s.refuse(wants("q", 1000), "n")
	s.Released("n", "")
	s.want(t, "q")
	if s.claims["nudged"] != nil {
		t.Error("others are passed over for a pod that is not tried")
	}
}

func TestSmallerPodsFitBesideOrInstead(t *testing.T) {
	s := newShop("n")
	s.hold("big", "n", 9000)
	s.hold("rest", "n", 1000)
	s.refuse(wants("nine-and-a-half", 9500), "n")
	s.refuse(wants("six", 6000), "n")
	s.refuse(wants("another six", 6000), "n")
	s.refuse(wants("three", 3000), "n")
	s.refuse(wants("one", 1000), "n")
	s.leave("big")
	s.want(t, "six", "three")
}

// A release where a pod may not go (kube-scheduler did not offer the node) neither wakes it nor is spent on
// it.
func TestOnlyNodesThatWereOffered(t *testing.T) {
	s := newShop("a", "b")
	s.hold("ha", "a", 8000)
	s.hold("hb", "b", 8000)
	s.refuse(wants("only-b", 6000), "b")
	s.refuse(wants("only-a", 6000), "a")
	s.leave("ha")
	s.want(t, "only-a")
	s.leave("hb")
	s.want(t, "only-b")
}

func TestQuotaReleased(t *testing.T) {
	s := newShop("a", "b")
	s.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 9000}}})
	s.hold("h1", "a", 4000)
	s.hold("h2", "a", 4000)
	s.refuse(wants("p", 4000), "a", "b")
	s.refuse(wants("q", 4000), "a", "b")
	s.leave("h1") // room in the namespace for one, on the nodes for both
	s.want(t, "p")
	s.book.RemoveQuota("ns", "q")
	s.Released("", "ns")
	s.want(t, "q")
}

// Neither a quota nor a node alone is enough.
func TestQuotaAndNode(t *testing.T) {
	s := newShop("a")
	s.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 9000}}})
	s.hold("h", "a", 9000)
	s.hold("g", "a", 100)
	s.refuse(wants("p", 9000), "a")
	s.leave("h")
	s.want(t) // the quota still has g
	s.refuse(wants("small", 8000), "a")
	s.leave("g")
	s.want(t, "p")
}

func TestGateRoom(t *testing.T) {
	s := newShop("n")
	for i := range 4 {
		s.refuse(wants(fmt.Sprint("p", i), 100), "n")
	}
	s.gate = 0
	s.Released("n", "")
	s.want(t)
	s.gate = 2
	s.Released("n", "")
	s.want(t, "p0", "p1")
}

// A percentage is charged by the card.
func TestUnsettledCharge(t *testing.T) {
	s := newShop("n")
	s.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 4999}}})
	p := wants("p", 0)
	p.ChargesKnown, p.Charges = false, map[string]ledger.Charge{"NVIDIA": {Devices: 1}}
	p.Placement.Requests[0].MemoryPercent = 50
	s.refuse(p, "n")
	s.Released("n", "ns")
	s.want(t)
	s.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 5000}}})
	s.Released("", "ns")
	s.want(t, "p")
}

func TestForgotten(t *testing.T) {
	s := newShop("n")
	s.refuse(wants("bound", 1), "n")
	s.refuse(wants("passed", 1), "n")
	s.refuse(wants("gone", 1), "n")
	s.Forget("bound")
	s.FilterEnds(s.FilterStarts(), wants("passed", 1), nil)
	s.now = s.now.Add(Stale)
	s.refuse(wants("fresh", 1), "n")
	s.Released("n", "")
	s.want(t, "fresh")
}

func TestSet(t *testing.T) {
	var n names
	var all []string
	for i := range 5000 {
		all = append(all, fmt.Sprint(i))
	}
	n.set(all)
	some := []string{"0", "63", "64", "4999", "one more"}
	set := n.set(some)
	var got []string
	for id := range set.members {
		got = append(got, n.all()[id])
		if !set.has(id) {
			t.Errorf("has no %d", id)
		}
	}
	if diff := cmp.Diff(some, got); diff != "" {
		t.Error(diff)
	}
	if set.has(1) || set.has(100000) || set == nil {
		t.Error("has what was not put in")
	}
}

// Filters that book what fits, and releases, at random and at once: in the end nobody waits who fits.
func TestNobodyIsLeftBehind(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	nodes := []string{"a", "b", "c"}
	s := newShop(nodes...)
	pods := map[string]*podrequest.Request{}
	var running sync.WaitGroup
	for i := range 30 {
		name := fmt.Sprint("h", i)
		s.hold(name, nodes[i%3], 1000)
		running.Go(func() { s.leave(name) })
	}
	r := rand.New(rand.NewSource(seed))
	for i := range 60 {
		p := wants(fmt.Sprint("p", i), int64(1000*(1+r.Intn(3))))
		pods[p.Name] = p
		running.Go(func() { s.try(p, nodes) })
	}
	running.Wait()
	for s.run() || len(s.nudged) > 0 {
		nudged := s.nudged
		s.nudged = nil
		for _, name := range nudged {
			s.try(pods[name], nodes)
		}
	}
	for _, p := range s.pods {
		for _, n := range nodes {
			if fits(p.pod, s.book.Node(n)) {
				t.Errorf("%s waits and fits on %s", p.pod.Name, n)
			}
		}
	}
	if booked := len(s.book.Pods()); booked+len(s.pods) != 60 {
		t.Errorf("%d booked and %d waiting of 60", booked, len(s.pods))
	}
}

// Room for which a pod was nudged that then does not take it goes to the next one.
func TestRoomThatANudgedPodDoesNotTake(t *testing.T) {
	for name, turn := range map[string]func(s *shop){
		"it was deleted while it waited":           func(s *shop) { s.Unclaimed("first") },
		"kube-scheduler has it on other nodes now": func(s *shop) { s.hold("h", "other", 8000); s.refuse(wants("first", 6000), "other") },
		"kube-scheduler finds no node to ask for":  func(s *shop) { s.later() },
		"it was bound elsewhere": func(s *shop) {
			s.FilterEnds(s.FilterStarts(), wants("first", 6000), nil)
			s.hold("first", "other", 6000)
			s.Forget("first")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop("n", "other")
			s.after = func(_ time.Duration, f func()) { s.later = f }
			s.hold("h", "n", 8000)
			s.refuse(wants("first", 6000), "n")
			s.refuse(wants("next", 6000), "n")
			s.leave("h")
			s.want(t, "first")
			turn(s)
			s.want(t, "next")
			s.want(t)
		})
	}
}

// Who was passed over is not nudged when the room is taken.
func TestRoomThatANudgedPodTakes(t *testing.T) {
	s := newShop("n")
	s.after = func(_ time.Duration, f func()) { s.later = f }
	s.hold("h", "n", 8000)
	s.refuse(wants("first", 6000), "n")
	s.refuse(wants("next", 6000), "n")
	s.leave("h")
	s.want(t, "first")
	s.FilterEnds(s.FilterStarts(), wants("first", 6000), nil)
	s.want(t)
	s.hold("first", "n", 6000)
	s.Forget("first")
	s.want(t)
	s.later()
	s.want(t)
}
