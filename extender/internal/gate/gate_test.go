package gate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
)

func holds(mib int64) device.Allocation {
	return device.Allocation{nil, {{UUID: "G0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}}}
}

func named(name string, mib int64) Pod {
	return Pod{UID: name, Name: "ns/" + name, Allocation: holds(mib)}
}

// street is a gate with a clock that stands still and a record of the room it told of.
type street struct {
	*Gate
	now  time.Time
	room []string
}

func newStreet() *street {
	s := &street{now: time.Unix(1000, 0)}
	s.Gate = New(func() time.Time { return s.now }, func(node string) { s.room = append(s.room, node) })
	return s
}

// enter starts to enter and returns once the pod is inside or in the queue.
func (s *street) enter(ctx context.Context, node string, p Pod) <-chan error {
	before := s.waiting(node)
	done := make(chan error, 1)
	go func() { done <- s.Enter(ctx, node, p) }()
	for {
		s.mu.Lock()
		_, inside := s.where[p.UID]
		s.mu.Unlock()
		if inside || s.waiting(node) > before {
			return done
		}
		runtime.Gosched()
	}
}

func (s *street) waiting(node string) int {
	for _, st := range s.States() {
		if st.Node == node {
			return st.Waiting
		}
	}
	return 0
}

func (s *street) inside(node string) []string {
	for _, st := range s.States() {
		if st.Node == node {
			var names []string
			for _, p := range st.Inside {
				names = append(names, p.Name)
			}
			return names
		}
	}
	return nil
}

// Two pods of the same shape and different limits are never inside together, however long
// kubelet takes.
func TestOnePodAtATime(t *testing.T) {
	s := newStreet()
	if err := <-s.enter(t.Context(), "n", named("a", 1000)); err != nil {
		t.Fatal(err)
	}
	b := s.enter(t.Context(), "n", named("b", 3000))
	c := s.enter(t.Context(), "n", named("c", 1000))
	s.now = s.now.Add(24 * time.Hour)
	if diff := cmp.Diff([]string{"ns/a"}, s.inside("n")); diff != "" {
		t.Fatal(diff)
	}
	s.Leave("a")
	if err := <-b; err != nil {
		t.Fatal(err)
	}
	// c is identical to a, but not to b, which came before it.
	if diff := cmp.Diff([]string{"ns/b"}, s.inside("n")); diff != "" {
		t.Fatal(diff)
	}
	s.Leave("b")
	if err := <-c; err != nil {
		t.Fatal(err)
	}
	s.Leave("c")
	if diff := cmp.Diff([]State{}, s.States()); diff != "" {
		t.Errorf("an empty gate is remembered: %s", diff)
	}
}

func TestIdenticalAllocationsEnterTogether(t *testing.T) {
	s := newStreet()
	for _, name := range []string{"a", "b", "c"} {
		if err := <-s.enter(t.Context(), "n", named(name, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	shifted := Pod{UID: "d", Allocation: device.Allocation{holds(1000)[1], nil}} // other position
	d := s.enter(t.Context(), "n", shifted)
	e := s.enter(t.Context(), "other", named("e", 1000))
	if err := <-e; err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		s.Leave(name)
	}
	if got := s.waiting("n"); got != 1 {
		t.Fatalf("%d pods wait, want d behind c", got)
	}
	s.Leave("c")
	if err := <-d; err != nil {
		t.Fatal(err)
	}
}

// An allocation that cannot be read is identical to nothing, itself included.
func TestUnreadableAllocationIsAlone(t *testing.T) {
	s := newStreet()
	s.Inside("n", Pod{UID: "a", Name: "ns/a"})
	b := s.enter(t.Context(), "n", Pod{UID: "b", Name: "ns/b"})
	if diff := cmp.Diff([]string{"ns/a"}, s.inside("n")); diff != "" {
		t.Fatal(diff)
	}
	s.Leave("a")
	<-b
}

// A pod that opted in to NUMA refit may get another record while it is inside, and would then no longer be
// identical to those beside it: it neither joins others nor is joined.
func TestAPodThatMayMoveIsAlone(t *testing.T) {
	mayMove := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{
				"hami.io/vgpu-devices-allocated": ";G0,NVIDIA,1000,0:;", "hami.io/numa-alignment": "best-effort",
			}},
			Spec: corev1.PodSpec{NodeName: "n", Containers: make([]corev1.Container, 2)},
		}
	}
	s := newStreet()
	s.Observe(mayMove("a"))
	b := s.enter(t.Context(), "n", named("b", 1000)) // would be identical
	alone := named("c", 1000)
	alone.Alone = true
	c := s.enter(t.Context(), "n", alone)
	if diff := cmp.Diff([]string{"ns/a"}, s.inside("n")); diff != "" {
		t.Fatal(diff)
	}
	s.Leave("a")
	if err := <-b; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ns/b"}, s.inside("n")); diff != "" {
		t.Fatal(diff)
	}
	s.Leave("b")
	if err := <-c; err != nil {
		t.Fatal(err)
	}
}

func TestFirstInFirstOut(t *testing.T) {
	s := newStreet()
	s.Inside("n", named("first", 1))
	waits := make([]<-chan error, 5)
	for i := range waits {
		waits[i] = s.enter(t.Context(), "n", named(fmt.Sprint(i), int64(100+i)))
	}
	s.Leave("first")
	for i, w := range waits {
		if err := <-w; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ns/" + fmt.Sprint(i)}, s.inside("n")); diff != "" {
			t.Fatal(diff)
		}
		s.Leave(fmt.Sprint(i))
	}
}

// A client that goes away leaves the queue, says whom it waited for, and holds nobody up.
func TestClientGoesAway(t *testing.T) {
	s := newStreet()
	s.Inside("n", named("a", 1000))
	gone := errors.New("client disconnected")
	ctx, cancel := context.WithCancelCause(t.Context())
	b := s.enter(ctx, "n", named("b", 2000))
	c := s.enter(t.Context(), "n", named("c", 3000))
	s.now = s.now.Add(12 * time.Second)
	cancel(gone)
	err := <-b
	if !errors.Is(err, gone) || !strings.Contains(err.Error(), "ns/a") || !strings.Contains(err.Error(), "12s") {
		t.Errorf("got %v, want the cause, the pod inside and how long", err)
	}
	s.Leave("a")
	if err := <-c; err != nil {
		t.Fatal(err)
	}
}

// Facts may come before, after and twice: the watch can show a pod started before its POST was answered.
func TestFactsInAnyOrder(t *testing.T) {
	s := newStreet()
	<-s.enter(t.Context(), "n", named("a", 1000))
	s.Inside("n", named("a", 1000))
	s.Inside("n", named("a", 1000))
	s.Leave("a")
	s.Leave("a")
	s.Leave("never seen")
	if diff := cmp.Diff([]State{}, s.States()); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalsAndRoom(t *testing.T) {
	s := newStreet()
	s.Inside("slow", named("a", 1))
	s.now = s.now.Add(LongShut)
	s.Inside("busy", named("b", 1))
	for i := range DeepQueue {
		if got := len(s.Refusals()); got != 0 {
			t.Fatalf("%d refusals with %d pods waiting", got, i)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := s.enter(ctx, "busy", named(fmt.Sprint(i), int64(100+i)))
		defer func() { <-w }()
		defer cancel()
	}
	s.now = s.now.Add(time.Second)
	want := map[string]string{
		"slow": "GPU gate of the node is shut: kubelet does not report on a pod bound to it",
		"busy": "GPU gate of the node has too many pods waiting",
	}
	if diff := cmp.Diff(want, s.Refusals()); diff != "" {
		t.Error(diff)
	}
	if s.Room("slow") != 0 || s.Room("busy") != 0 || s.Room("idle") != DeepQueue {
		t.Errorf("room %d, %d, %d", s.Room("slow"), s.Room("busy"), s.Room("idle"))
	}
	if len(s.room) != 0 {
		t.Fatalf("told of room at %v", s.room)
	}
	s.Leave("a")
	s.Leave("b")
	if diff := cmp.Diff([]string{"slow", "busy"}, s.room); diff != "" {
		t.Error(diff)
	}
}

// A pod that waits here and is bound to another node by somebody else is inside there, and only there.
func TestBoundElsewhereMeanwhile(t *testing.T) {
	for name, facts := range map[string]func(s *street, pass func()){
		"shown before its turn": func(s *street, pass func()) { s.Inside("there", named("p", 2000)); pass() },
		"shown after its turn":  func(s *street, pass func()) { pass(); s.Inside("there", named("p", 2000)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStreet()
			s.Inside("here", named("a", 1000))
			w := &waiter{Pod: named("p", 3000), admitted: make(chan struct{})}
			s.mu.Lock()
			s.nodes["here"].waiting = append(s.nodes["here"].waiting, w)
			s.mu.Unlock()
			facts(s, func() {
				s.Leave("a")
				<-w.admitted
			})
			s.Withdraw("p") // what the binder does when it learns that the pod is bound
			if diff := cmp.Diff([]string{"ns/p"}, s.inside("there")); diff != "" {
				t.Errorf("there: %s", diff)
			}
			if diff := cmp.Diff([]string(nil), s.inside("here")); diff != "" {
				t.Errorf("here: %s", diff)
			}
			s.Leave("p")
			if diff := cmp.Diff([]State{}, s.States()); diff != "" {
				t.Errorf("somebody stays inside for good: %s", diff)
			}
		})
	}
}

// What the watch has shown is neither replaced nor ended by what a binding meant to do.
func TestFactsOverIntentions(t *testing.T) {
	s := newStreet()
	s.Inside("n", named("p", 2000))
	if err := s.Enter(t.Context(), "n", named("p", 3000)); err != nil {
		t.Fatal(err)
	}
	s.Withdraw("p")
	want := []Pod{named("p", 2000)}
	if diff := cmp.Diff(want, s.States()[0].Inside); diff != "" {
		t.Error(diff)
	}
	s.Leave("p")
	if err := s.Enter(t.Context(), "n", named("p", 3000)); err != nil {
		t.Fatal(err)
	}
	s.Withdraw("p")
	if diff := cmp.Diff([]State{}, s.States()); diff != "" {
		t.Error(diff)
	}
}

// However many pods wait at one node, those of other nodes are let in at once: their patience is over already.
func TestBusyNodeHoldsUpNobodyElse(t *testing.T) {
	s := newStreet()
	s.Gate = New(func() time.Time { return s.now }, func(string) {}) // all who wait go at once when the test ends
	s.Inside("busy", named("first", 1))
	for i := range 200 {
		s.enter(t.Context(), "busy", named(fmt.Sprint("busy", i), int64(2+i)))
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 100 {
		node := fmt.Sprint("n", i%10)
		p := named(fmt.Sprint("p", i), int64(1000+i))
		if err := s.Enter(impatient, node, p); err != nil {
			t.Fatal(err)
		}
		s.Leave(p.UID)
	}
	if len(s.Refusals()) != 1 || s.Room("n0") != DeepQueue || s.waiting("busy") != 200 {
		t.Errorf("refused: %v; room for %d elsewhere; %d wait", s.Refusals(), s.Room("n0"), s.waiting("busy"))
	}
}
