package gate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
)

func holds(mib int64) device.Allocation {
	return device.Allocation{nil, {{UUID: "G0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}}}
}

func named(name string, mib int64) Pod {
	return Pod{UID: name, Name: "ns/" + name, Allocation: holds(mib)}
}

// gates are gates with a clock that stands still and a record of the nodes that got more room.
type gates struct {
	*Gate
	t    *testing.T
	now  time.Time
	room []string
}

func newGates(t *testing.T) *gates {
	s := &gates{t: t, now: time.Unix(1000, 0)}
	s.Gate = New(func() time.Time { return s.now }, s)
	return s
}

// NodeFreed implements RoomObserver.
func (s *gates) NodeFreed(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = append(s.room, node)
}

// enter starts to enter and returns once the pod is inside or in the queue.
func (s *gates) enter(ctx context.Context, node string, p Pod) <-chan error {
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

func (s *gates) state(node string) State {
	states := s.States()
	if i := slices.IndexFunc(states, func(state State) bool { return state.Node == node }); i >= 0 {
		return states[i]
	}
	return State{}
}

func (s *gates) waiting(node string) int { return s.state(node).Waiting }

// wantInside fails the test unless exactly these pods are inside a node's gate.
func (s *gates) wantInside(node string, want ...string) {
	s.t.Helper()
	var got []string
	for _, p := range s.state(node).Inside {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("inside the gate of %s: %s", node, diff)
	}
}

// wantOpen fails the test unless nothing is kept of any gate.
func (s *gates) wantOpen() {
	s.t.Helper()
	if states := s.States(); len(states) > 0 {
		s.t.Errorf("gates that are not open: %+v", states)
	}
}

// entered waits until a pod is inside.
func (s *gates) entered(enter <-chan error) {
	s.t.Helper()
	if err := <-enter; err != nil {
		s.t.Fatal(err)
	}
}

// Two pods with different limits are never inside together, however long kubelet takes.
func TestOnePodAtATime(t *testing.T) {
	s := newGates(t)
	s.entered(s.enter(t.Context(), "n", named("a", 1000)))
	b := s.enter(t.Context(), "n", named("b", 3000))
	c := s.enter(t.Context(), "n", named("c", 1000))
	s.now = s.now.Add(24 * time.Hour)
	s.wantInside("n", "ns/a")
	s.Leave("a")
	s.entered(b)
	// c is identical to a, but not to b, which came before it.
	s.wantInside("n", "ns/b")
	s.Leave("b")
	s.entered(c)
	s.Leave("c")
	s.wantOpen()
}

func TestIdenticalAllocationsEnterTogether(t *testing.T) {
	s := newGates(t)
	for _, name := range []string{"a", "b", "c"} {
		s.entered(s.enter(t.Context(), "n", named(name, 1000)))
	}
	shifted := Pod{UID: "d", Allocation: device.Allocation{holds(1000)[1], nil}} // other position
	d := s.enter(t.Context(), "n", shifted)
	s.entered(s.enter(t.Context(), "other", named("e", 1000)))
	for _, name := range []string{"a", "b"} {
		s.Leave(name)
	}
	if got := s.waiting("n"); got != 1 {
		t.Fatalf("%d pods wait, want d behind c", got)
	}
	s.Leave("c")
	s.entered(d)
}

// An allocation that cannot be read is identical to nothing, itself included.
func TestUnreadableAllocationIsAlone(t *testing.T) {
	s := newGates(t)
	s.Inside("n", Pod{UID: "a", Name: "ns/a"})
	b := s.enter(t.Context(), "n", Pod{UID: "b", Name: "ns/b"})
	s.wantInside("n", "ns/a")
	s.Leave("a")
	<-b
}

// A pod that opted in to NUMA refit may get another record while it is inside, and would then no longer be identical to
// the others inside. So it never shares the gate.
func TestAPodThatMayMoveIsAlone(t *testing.T) {
	mayMove := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a", Annotations: map[string]string{
			"hami.io/vgpu-devices-allocated": ";G0,NVIDIA,1000,0:;", "hami.io/numa-alignment": "best-effort",
		}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: make([]corev1.Container, 2)},
	}
	s := newGates(t)
	s.Observe(mayMove, holds(1000))
	b := s.enter(t.Context(), "n", named("b", 1000)) // would be identical
	alone := named("c", 1000)
	alone.Alone = true
	c := s.enter(t.Context(), "n", alone)
	s.wantInside("n", "ns/a")
	s.Leave("a")
	s.entered(b)
	s.wantInside("n", "ns/b")
	s.Leave("b")
	s.entered(c)
}

func TestFirstInFirstOut(t *testing.T) {
	s := newGates(t)
	s.Inside("n", named("first", 1))
	waits := make([]<-chan error, 5)
	for i := range waits {
		waits[i] = s.enter(t.Context(), "n", named(fmt.Sprint(i), int64(100+i)))
	}
	s.Leave("first")
	for i, w := range waits {
		s.entered(w)
		s.wantInside("n", "ns/"+fmt.Sprint(i))
		s.Leave(fmt.Sprint(i))
	}
}

// A client that goes away leaves the queue, its error names the pod inside, and the next pod is let in.
func TestClientGoesAway(t *testing.T) {
	s := newGates(t)
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
	s.entered(c)
}

// Facts may come before, after and twice: the watch can show a pod started before its POST was answered.
func TestFactsInAnyOrder(t *testing.T) {
	s := newGates(t)
	<-s.enter(t.Context(), "n", named("a", 1000))
	s.Inside("n", named("a", 1000))
	s.Inside("n", named("a", 1000))
	s.Leave("a")
	s.Leave("a")
	s.Leave("never seen")
	s.wantOpen()
}

func TestRefusalsAndRoom(t *testing.T) {
	s := newGates(t)
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
		t.Fatalf("more room at %v", s.room)
	}
	s.Leave("a")
	s.Leave("b")
	if diff := cmp.Diff([]string{"slow", "busy"}, s.room); diff != "" {
		t.Error(diff)
	}
}

// A pod that waits at one node and is bound to another by somebody else is inside there, and only there.
func TestBoundElsewhereMeanwhile(t *testing.T) {
	for name, facts := range map[string]func(s *gates, pass func()){
		"shown before its turn": func(s *gates, pass func()) { s.Inside("there", named("p", 2000)); pass() },
		"shown after its turn":  func(s *gates, pass func()) { pass(); s.Inside("there", named("p", 2000)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newGates(t)
			s.Inside("here", named("a", 1000))
			w := &waiter{Pod: named("p", 3000), admitted: make(chan struct{})}
			s.mu.Lock()
			s.nodes["here"].waiting = append(s.nodes["here"].waiting, w)
			s.mu.Unlock()
			facts(s, func() {
				s.Leave("a")
				<-w.admitted
			})
			s.Abandon("p") // what the binder does when it learns that the pod is bound
			s.wantInside("there", "ns/p")
			s.wantInside("here")
			s.Leave("p")
			s.wantOpen()
		})
	}
}

// A binding neither replaces nor ends what the watch has shown.
func TestFactsOverIntentions(t *testing.T) {
	s := newGates(t)
	s.Inside("n", named("p", 2000))
	s.entered(s.enter(t.Context(), "n", named("p", 3000)))
	s.Abandon("p")
	want := []Pod{named("p", 2000)}
	if diff := cmp.Diff(want, s.States()[0].Inside); diff != "" {
		t.Error(diff)
	}
	s.Leave("p")
	s.entered(s.enter(t.Context(), "n", named("p", 3000)))
	s.Abandon("p")
	s.wantOpen()
}

// However many pods wait at one node, those of other nodes are admitted at once, even with a context that has ended.
func TestBusyNodeDelaysNoOtherNode(t *testing.T) {
	s := newGates(t)
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
