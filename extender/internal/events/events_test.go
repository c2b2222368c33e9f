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

// story is books on which pods live, and what is told of it.
type story struct {
	*Notices
	t       *testing.T
	book    *ledger.Book
	pods    map[string]*corev1.Pod
	told    []string // events
	changes []string
	counted map[string]int // "reason result"
}

// Eventf implements events.EventRecorder.
func (s *story) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	ref, ok := regarding.(*corev1.ObjectReference)
	if !ok || ref.Kind != "Pod" || ref.Namespace != "ns" || ref.UID == "" || ref.ResourceVersion != "" || related != nil || action == "" {
		s.t.Errorf("event about %#v, %v", regarding, related)
		return
	}
	about := ref.Name
	if ref.FieldPath != "" {
		about += " " + ref.FieldPath
	}
	s.told = append(s.told, strings.Join([]string{about, kind, reason, fmt.Sprintf(note, args...)}, " "))
}

func newStory(t *testing.T) *story {
	s := &story{t: t, book: ledger.New(), pods: map[string]*corev1.Pod{}, counted: map[string]int{}}
	s.Notices = New(Config{
		Recorder: s, Reasons: Reasons(),
		Changed: func(change string) { s.changes = append(s.changes, change) },
		Told:    func(reason, result string) { s.counted[reason+" "+result]++ },
	})
	s.book.SetNode(ledger.Node{Name: "n", Devices: []device.Device{
		{UUID: "G0", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}},
		{UUID: "G1", Family: "NVIDIA", Index: 1, Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}},
	}})
	return s
}

// expect fails the test unless exactly these events and changes have happened since the last look.
func (s *story) expect(what string, changes []string, told ...string) {
	s.t.Helper()
	if diff := cmp.Diff(told, s.told); diff != "" {
		s.t.Errorf("%s: told %s", what, diff)
	}
	if diff := cmp.Diff(changes, s.changes); diff != "" {
		s.t.Errorf("%s: changes %s", what, diff)
	}
	s.told, s.changes = nil, nil
}

// pod is bound to n with containers "i0", "i1", …, "app" on the devices that are named, "G0 20000".
func pod(name string, shares ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("u-" + name)}, Spec: corev1.PodSpec{NodeName: "n"}}
	record := ""
	for i, share := range shares {
		uuid, mib, _ := strings.Cut(share, " ")
		record += uuid + ",NVIDIA," + mib + ",0:;"
		c := corev1.Container{Name: fmt.Sprint("i", i), Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
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
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint("i", i), State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(time.Minute))},
		}})
		start = start.Add(time.Minute)
	}
	if inits == len(p.Spec.InitContainers) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}}}
	}
	return p
}

// see has the watch show a pod.
func (s *story) see(p *corev1.Pod) {
	before := s.book.Pod(string(p.UID))
	s.pods[p.Name] = p
	d := s.book.Observe(kube.LedgerPod(p, phase.PerInit))
	s.Observed(before, p, d, s.book.Pod(string(p.UID)), s.book.Node("n"))
}

// A pod's life: each init container that gives something back is told once, by its name.
func TestLife(t *testing.T) {
	s := newStory(t)
	p := pod("p", "G0 20000", "G0 8000", "G0 8000", "G1 5000")
	s.see(p)
	s.expect("seen for the first time, as after a restart", nil)
	s.see(done(p, 0))
	s.expect("nothing has happened", nil)
	s.see(done(p, 1))
	s.expect("i0", []string{"released"}, "p spec.initContainers{i0} Normal GPUReleased after init container i0: GPU G0 8000 MiB, was 20000 MiB")
	s.see(done(p, 1))
	s.see(done(p, 2))
	s.expect("i1, which needed what i2 needs", nil)
	s.see(done(p, 3))
	s.expect("i2", []string{"released"}, "p spec.initContainers{i2} Normal GPUReleased after init container i2: GPU G0 nothing, was 8000 MiB")
	rerun := done(p, 0)
	rerun.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	s.see(rerun)
	s.expect("a new sandbox", []string{"raised"}, "p Normal GPURaised its init containers run again: GPU G0 20000 MiB, was nothing")
	s.see(done(p, 3))
	s.expect("at once", []string{"released"}, "p spec.initContainers{i2} Normal GPUReleased after init container i2: GPU G0 nothing, was 20000 MiB")
	end := done(p, 3)
	end.Status.Phase = corev1.PodSucceeded
	s.see(end)
	s.expect("the end", []string{"ended"})
	s.Observed(s.book.Pod(string(end.UID)), nil, ledger.Delta{}, nil, s.book.Node("n"))
	s.expect("deleted after its end", nil)
}

// The policies of pods and operator: nothing is told of what is not given back.
func TestReleasePolicies(t *testing.T) {
	s := newStory(t)
	all := pod("all", "G0 2000", "G0 1000", "G0 500")
	all.Annotations["phasegpu.io/release"] = "all-inits"
	hold := pod("hold", "G0 2000", "G0 500")
	hold.Annotations["phasegpu.io/release"] = "hold"
	for _, p := range []*corev1.Pod{all, hold} {
		for inits := range len(p.Spec.InitContainers) + 1 {
			s.see(done(p, inits))
		}
	}
	s.expect("lives", []string{"released"}, "all spec.initContainers{i1} Normal GPUReleased after init container i1: GPU G0 500 MiB, was 2000 MiB")
}

func TestBound(t *testing.T) {
	s := newStory(t)
	p := pod("p", "G0 20000", "G1 3000", "G0 8000")
	p.Spec.NodeName, p.Annotations = "", nil
	asked, err := podrequest.Parse(p, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	share := func(uuid string, mib int64) []device.Share {
		return []device.Share{{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib, Cores: 30}}}
	}
	s.Bound(asked, "n", device.Allocation{share("G0", 20000), share("G1", 3000), share("G0", 8000)})
	s.expect("bound", []string{"placed"}, "p Normal GPUPlaced on node n: GPU G0 20000 MiB and 30% cores at the peak, 8000 MiB and 30% cores in steady state; "+
		"GPU G1 3000 MiB and 30% cores at the peak, nothing in steady state")
}

// Card 24576, P1 (init 20000, app 5000) steady, P2 15000 beside it, P1's sandbox dies.
func TestRerunWithoutRoom(t *testing.T) {
	s := newStory(t)
	p1, p2 := pod("p1", "G0 20000", "G0 5000"), pod("p2", "G0 15000")
	s.see(done(p1, 1))
	s.see(done(p2, 0))
	s.expect("both", nil)
	rerun := done(p1, 0)
	rerun.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	s.see(rerun)
	if len(s.told) != 1 {
		t.Fatalf("told %v, want one event", s.told)
	}
	for _, word := range []string{"p1 Warning", Overcommitted, "G0", "node n", "35000 MiB", "24576 MiB"} {
		if !strings.Contains(s.told[0], word) {
			t.Errorf("event %q does not say %q", s.told[0], word)
		}
	}
	s.expect("over capacity", []string{"overcommitted"}, s.told...)
	s.see(rerun)
	s.see(pod("elsewhere", "G1 1000"))
	s.expect("the same again, and another device", nil)
}

// A refit moves a pod to other devices: the refit service has told.
func TestMoved(t *testing.T) {
	s := newStory(t)
	s.see(pod("p", "G0 2000", "G0 1000"))
	s.see(pod("p", "G1 2000", "G1 1000"))
	s.expect("moved", nil)
}

// Whatever happens at once, no more than a burst of events is written and warnings are among them; what an
// operator does not want is not written at all. All is counted.
func TestBounds(t *testing.T) {
	s := newStory(t)
	for i := range 5 * Burst {
		p := pod(fmt.Sprint("p", i), "G0 20", "G0 5")
		s.see(p)
		s.see(done(p, 1))
	}
	if n := len(s.told); n < Burst || n > 2*Burst { // it may be that seconds pass
		t.Errorf("%d events of %d are written, want about %d", n, 5*Burst, Burst)
	}
	if got := s.counted["GPUReleased recorded"] + s.counted["GPUReleased dropped"]; got != 5*Burst || len(s.changes) != 5*Burst {
		t.Errorf("%d events and %d changes are counted, want %d", got, len(s.changes), 5*Burst)
	}
	s.told = nil
	s.see(pod("large", "G0 20000", "G0 1"))
	s.see(done(s.pods["large"], 1))
	s.see(pod("other", "G0 20000"))
	s.told = nil
	s.see(pod("large", "G0 20000", "G0 1"))
	if len(s.told) != 1 || !strings.Contains(s.told[0], Overcommitted) {
		t.Errorf("amid all that, of an over-commit is told %v", s.told)
	}

	s = newStory(t)
	s.Reasons = []string{Overcommitted}
	p := pod("p", "G0 20", "G0 5")
	s.see(p)
	s.see(done(p, 1))
	s.expect("unwanted", []string{"released"})
}

// Notes are what the API server takes.
func TestLongNotes(t *testing.T) {
	s := newStory(t)
	var a device.Allocation
	var shares []device.Share
	for i := range 64 {
		shares = append(shares, device.Share{UUID: fmt.Sprintf("GPU-%032d", i), Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: 1}})
	}
	a = append(a, shares)
	p, err := podrequest.Parse(pod("p", "G0 1"), podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	s.Bound(p, "n", a)
	if n := len(s.told[0]); n < 800 || n > 1000 || !strings.HasSuffix(s.told[0], "…") {
		t.Errorf("%d bytes: %s", n, s.told[0])
	}
	if !slices.Equal(s.changes, []string{placed}) {
		t.Error(s.changes)
	}
}
