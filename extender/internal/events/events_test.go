package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// recorder has books, and keeps what is written and counted of their pods.
type recorder struct {
	*PodEvents
	t       *testing.T
	book    *ledger.Book
	written []string
	changes []string
	counted map[string]int // "reason result"
}

// ReservationChanged and Event implement Metrics.
func (s *recorder) ReservationChanged(change string) { s.changes = append(s.changes, change) }
func (s *recorder) Event(reason, result string)      { s.counted[reason+" "+result]++ }

// Eventf implements events.EventRecorder.
func (s *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	ref, ok := regarding.(*corev1.ObjectReference)
	if !ok || ref.Kind != "Pod" || ref.Namespace != "ns" || ref.UID == "" || ref.ResourceVersion != "" ||
		related != nil || action == "" {
		s.t.Errorf("event about %#v, %v", regarding, related)
		return
	}
	about := ref.Name
	if ref.FieldPath != "" {
		about += " " + ref.FieldPath
	}
	s.written = append(s.written, strings.Join([]string{about, kind, reason, fmt.Sprintf(note, args...)}, " "))
}

func newRecorder(t *testing.T, reasons ...string) *recorder {
	s := &recorder{t: t, book: ledger.New(), counted: map[string]int{}}
	s.PodEvents = New(s, reasons, s)
	capacity := device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}
	s.book.SetNode(ledger.Node{Name: "n", Devices: []device.Device{
		{UUID: "G0", Family: "NVIDIA", Healthy: true, Capacity: capacity},
		{UUID: "G1", Family: "NVIDIA", Index: 1, Healthy: true, Capacity: capacity},
	}})
	return s
}

// expect fails the test unless exactly these changes and events have happened since its last call.
func (s *recorder) expect(what string, changes []string, events ...string) {
	s.t.Helper()
	if diff := cmp.Diff(events, s.written); diff != "" {
		s.t.Errorf("%s: events %s", what, diff)
	}
	if diff := cmp.Diff(changes, s.changes); diff != "" {
		s.t.Errorf("%s: changes %s", what, diff)
	}
	s.written, s.changes = nil, nil
}

// pod is bound to n with containers "i0", "i1", …, "app" on the devices that are named, "G0 20000".
func pod(name string, shares ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("u-" + name)},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	record := ""
	for i, share := range shares {
		uuid, mib, _ := strings.Cut(share, " ")
		record += uuid + ",NVIDIA," + mib + ",0:;"
		c := corev1.Container{Name: fmt.Sprint("i", i),
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse(mib),
			}}}
		if i == len(shares)-1 {
			c.Name = "app"
			p.Spec.Containers = append(p.Spec.Containers, c)
			continue
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	p.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": record}
	return p
}

// done returns the pod with that many init containers complete, one a minute, and its app running when all are.
func done(p *corev1.Pod, inits int) *corev1.Pod {
	p = p.DeepCopy()
	start := time.Unix(1700000000, 0)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	for i := range inits {
		terminated := &corev1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(time.Minute)),
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: fmt.Sprint("i", i), State: corev1.ContainerState{Terminated: terminated},
		})
		start = start.Add(time.Minute)
	}
	if inits == len(p.Spec.InitContainers) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)},
		}}}
	}
	return p
}

// rerun returns the pod in a new sandbox, which is not ready.
func rerun(p *corev1.Pod) *corev1.Pod {
	p = done(p, 0)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	return p
}

// see has the watch show a pod.
func (s *recorder) see(p *corev1.Pod) {
	before := s.book.Pod(string(p.UID))
	d := s.book.Observe(kube.LedgerPod(p, phase.PerInit))
	s.Observed(before, p, d, s.book.Pod(string(p.UID)), s.book.Node("n"))
}

// Each init container that gives something back has one event, which names it.
func TestLife(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	p := pod("p", "G0 20000", "G0 8000", "G0 8000", "G1 5000")
	s.see(p)
	s.expect("seen for the first time, as after a restart", nil)
	s.see(done(p, 0))
	s.expect("nothing has happened", nil)
	s.see(done(p, 1))
	s.expect("i0", []string{"released"},
		"p spec.initContainers{i0} Normal GPUReleased after init container i0: GPU G0 8000 MiB, was 20000 MiB")
	s.see(done(p, 1))
	s.see(done(p, 2))
	s.expect("i1, which needed what i2 needs", nil)
	s.see(done(p, 3))
	s.expect("i2", []string{"released"},
		"p spec.initContainers{i2} Normal GPUReleased after init container i2: GPU G0 nothing, was 8000 MiB")
	s.see(rerun(p))
	s.expect("a new sandbox", []string{"raised"},
		"p Normal GPURaised its init containers run again: GPU G0 20000 MiB, was nothing")
	s.see(done(p, 3))
	s.expect("at once", []string{"released"},
		"p spec.initContainers{i2} Normal GPUReleased after init container i2: GPU G0 nothing, was 20000 MiB")
	end := done(p, 3)
	end.Status.Phase = corev1.PodSucceeded
	s.see(end)
	s.expect("the end", []string{"ended"})
	s.Observed(s.book.Pod(string(end.UID)), nil, ledger.Delta{}, nil, s.book.Node("n"))
	s.expect("deleted after its end", nil)
}

// Under each release policy, what is not given back has no event.
func TestReleasePolicies(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	all := pod("all", "G0 2000", "G0 1000", "G0 500")
	all.Annotations["phasegpu.io/release"] = "all-inits"
	hold := pod("hold", "G0 2000", "G0 500")
	hold.Annotations["phasegpu.io/release"] = "hold"
	for _, p := range []*corev1.Pod{all, hold} {
		for inits := range len(p.Spec.InitContainers) + 1 {
			s.see(done(p, inits))
		}
	}
	s.expect("lives", []string{"released"},
		"all spec.initContainers{i1} Normal GPUReleased after init container i1: GPU G0 500 MiB, was 2000 MiB")
}

func TestBound(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	p := pod("p", "G0 20000", "G1 3000", "G0 8000")
	p.Spec.NodeName, p.Annotations = "", nil
	asked, err := podrequest.Parse(p, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	share := func(uuid string, mib int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA",
			Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: 30}}}
	}
	s.Bound(asked, "n", device.Allocation{share("G0", 20000), share("G1", 3000), share("G0", 8000)})
	s.expect("bound", []string{"placed"}, "p Normal GPUPlaced on node n: "+
		"GPU G0 20000 MiB and 30% cores at the peak, 8000 MiB and 30% cores in steady state; "+
		"GPU G1 3000 MiB and 30% cores at the peak, nothing in steady state")
}

// Of a card of 24576, P1 (init 20000, app 5000) holds its steady state and P2 15000 when P1's sandbox dies.
func TestRerunWithoutRoom(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	p1, p2 := pod("p1", "G0 20000", "G0 5000"), pod("p2", "G0 15000")
	s.see(done(p1, 1))
	s.see(done(p2, 0))
	s.expect("both", nil)
	s.see(rerun(p1))
	if len(s.written) != 1 {
		t.Fatalf("events %v, want one", s.written)
	}
	for _, word := range []string{"p1 Warning", Overcommitted, "G0", "node n", "35000 MiB", "24576 MiB"} {
		if !strings.Contains(s.written[0], word) {
			t.Errorf("event %q does not say %q", s.written[0], word)
		}
	}
	s.expect("over capacity", []string{"overcommitted"}, s.written...)
	s.see(rerun(p1))
	s.see(pod("elsewhere", "G1 1000"))
	s.expect("the same again, and another device", nil)
}

// A refit moves a pod to other devices: the refit service writes that event.
func TestMoved(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	s.see(pod("p", "G0 2000", "G0 1000"))
	s.see(pod("p", "G1 2000", "G1 1000"))
	s.expect("moved", nil)
}

// Of what happens at once no more than a burst of events is written, warnings among them; what an operator does not
// want is not written. All is counted.
func TestBounds(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	for i := range 5 * Burst {
		p := pod(fmt.Sprint("p", i), "G0 20", "G0 5")
		s.see(p)
		s.see(done(p, 1))
	}
	if n := len(s.written); n < Burst || n > 2*Burst { // it may be that seconds pass
		t.Errorf("%d events of %d are written, want about %d", n, 5*Burst, Burst)
	}
	if got := s.counted["GPUReleased recorded"] + s.counted["GPUReleased dropped"]; got != 5*Burst ||
		len(s.changes) != 5*Burst {
		t.Errorf("%d events and %d changes are counted, want %d", got, len(s.changes), 5*Burst)
	}
	s.written = nil
	large := pod("large", "G0 20000", "G0 1")
	s.see(large)
	s.see(done(large, 1))
	s.see(pod("other", "G0 20000"))
	s.written = nil
	s.see(large)
	if len(s.written) != 1 || !strings.Contains(s.written[0], Overcommitted) {
		t.Errorf("amid all that, events of an over-commit: %v", s.written)
	}

	s = newRecorder(t, Overcommitted)
	p := pod("p", "G0 20", "G0 5")
	s.see(p)
	s.see(done(p, 1))
	s.expect("unwanted", []string{"released"})
}

// Notes are what the API server takes.
func TestLongNotes(t *testing.T) {
	s := newRecorder(t, Reasons()...)
	var shares []device.Share
	for i := range 64 {
		uuid := fmt.Sprintf("GPU-%032d", i)
		shares = append(shares,
			device.Share{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: 1}})
	}
	p, err := podrequest.Parse(pod("p", "G0 1"), podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	s.Bound(p, "n", device.Allocation{shares})
	if n := len(s.written[0]); n < 800 || n > 1000 || !strings.HasSuffix(s.written[0], "…") {
		t.Errorf("%d bytes: %s", n, s.written[0])
	}
	if !slices.Equal(s.changes, []string{placed}) {
		t.Error(s.changes)
	}
}
