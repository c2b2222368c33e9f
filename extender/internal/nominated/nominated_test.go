package nominated

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/await"
)

// pod asks for memory of one card, first for an init container and then for an app.
func pod(uid string, priority int32, nominated string, init, app int64) *corev1.Pod {
	asks := func(name string, mib int64) []corev1.Container {
		return []corev1.Container{{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
		}}}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	p.Spec.Priority, p.Spec.InitContainers, p.Spec.Containers = &priority, asks("init", init), asks("app", app)
	p.Status.NominatedNodeName = nominated
	return p
}

// hold is a pod that holds memory of card n-0.
func hold(uid string, mib int64) ledger.Pod {
	return ledger.Pod{UID: uid, Namespace: "ns", Name: uid, Node: "n", Classes: phase.Pod{phase.App}, Allocation: device.Allocation{
		{{UUID: "n-0", Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: mib}}},
	}}
}

// books hold pods of these UIDs.
type books []string

func (b books) Pod(uid string) *ledger.Entry {
	if slices.Contains(b, uid) {
		return &ledger.Entry{}
	}
	return nil
}

type freed []string

func (f *freed) NodeFreed(node string) { *f = append(*f, node) }

type freedLater chan string

func (f freedLater) NodeFreed(node string) { f <- node }

// What is left of a card of 24576 MiB for a pod p of priority 100.
func TestClaims(t *testing.T) {
	for _, test := range []struct {
		name      string
		nominated []*corev1.Pod
		held      []ledger.Pod
		ending    string
		own       string // node to which p itself was nominated
		left      int64
	}{
		{name: "nobody", left: 24576},
		{name: "of a higher priority, its peak", nominated: []*corev1.Pod{pod("q", 200, "n", 16000, 4000)}, left: 8576},
		{name: "of the same", nominated: []*corev1.Pod{pod("q", 100, "n", 1, 16000)}, left: 8576},
		{name: "of a lower", nominated: []*corev1.Pod{pod("q", 99, "n", 1, 16000)}, left: 24576},
		{name: "to another node", nominated: []*corev1.Pod{pod("q", 200, "other", 1, 16000)}, left: 24576},
		{name: "itself", nominated: []*corev1.Pod{pod("p", 100, "n", 1, 16000)}, own: "n", left: 24576},
		{name: "both to one node: the other is first", nominated: []*corev1.Pod{pod("a", 100, "n", 1, 16000)}, own: "n", left: 8576},
		{name: "both to one node: the other is second", nominated: []*corev1.Pod{pod("q", 100, "n", 1, 16000)}, own: "n", left: 24576},
		{name: "whose binding is on its way", nominated: []*corev1.Pod{pod("booked", 200, "n", 1, 16000)}, left: 24576},
		{name: "two", nominated: []*corev1.Pod{pod("q", 200, "n", 1, 16000), pod("r", 300, "n", 8000, 1)}, left: 576},
		{
			name:      "two of whom only the more important fits",
			nominated: []*corev1.Pod{pod("q", 200, "n", 1, 16000), pod("r", 300, "n", 10000, 1)}, left: 14576,
		},
		{name: "who does not fit any more keeps nothing", nominated: []*corev1.Pod{pod("q", 200, "n", 1, 16000)}, held: []ledger.Pod{hold("h", 10000)}, left: 14576},
		{
			name:      "who waits for one that is ending keeps its room",
			nominated: []*corev1.Pod{pod("q", 200, "n", 1, 16000)}, held: []ledger.Pod{hold("h", 10000)}, ending: "h", left: -1,
		},
		{
			name:      "and leaves what is neither its nor the ending one's",
			nominated: []*corev1.Pod{pod("q", 200, "n", 1, 16000)}, held: []ledger.Pod{hold("h", 8500)}, ending: "h", left: 76,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := ledger.New()
			book.SetNode(ledger.Node{Name: "n", Devices: []device.Device{
				{UUID: "n-0", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}},
			}})
			for _, h := range test.held {
				book.Observe(h)
			}
			s := New(podrequest.Defaults{}, books{"booked"}, nil)
			for _, q := range test.nominated {
				s.Observe(q)
			}
			if test.ending != "" {
				s.Bound(test.ending, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}})
			}
			var scratch placement.Scratch
			fits := func(mib int64) bool {
				p, err := podrequest.Parse(pod("p", 100, test.own, 1, mib), podrequest.Defaults{})
				if err != nil {
					t.Fatal(err)
				}
				_, refusal := nodefit.Fit(&scratch, p, s.Before(p).View(&scratch, book.Node("n")), "", nil)
				return !refusal.Refused()
			}
			if test.left > 0 && !fits(test.left) || fits(max(test.left, 0)+1) {
				t.Errorf("%v with %d MiB, %v with one more", fits(test.left), test.left, fits(max(test.left, 0)+1))
			}
		})
	}
}

// Of no set, for a node that the books do not know, and of a device that is gone there are no claims.
func TestNoClaims(t *testing.T) {
	p, err := podrequest.Parse(pod("p", 100, "", 1, 1), podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	var none *Set
	v := &ledger.View{Name: "n", Known: true}
	if none.Before(p).View(&placement.Scratch{}, v) != v {
		t.Error("without a set, another view")
	}
	s := New(podrequest.Defaults{}, books{}, nil)
	s.Observe(pod("q", 200, "unknown", 1, 1))
	if s.Before(p).View(&placement.Scratch{}, nil) != nil {
		t.Error("of an unknown node, a view")
	}
	entry := &ledger.Entry{Reserved: phase.Reservation{Devices: []phase.Holding{{UUID: "gone"}}}}
	if got := v.With(entry); len(got.Held) > 0 {
		t.Errorf("%v is held of no device", got.Held)
	}
}

// Two of the same priority that were nominated to one node after they were read: one of them comes first, not both or none.
func TestNominatedSinceItWasRead(t *testing.T) {
	s := New(podrequest.Defaults{}, books{}, nil)
	for _, uid := range []string{"a", "b"} {
		s.Observe(pod(uid, 100, "n", 1, 1))
	}
	for uid, want := range map[string]int{"a": 0, "b": 1} {
		p, err := podrequest.Parse(pod(uid, 100, "", 1, 1), podrequest.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(s.Before(p).On("n")); got != want || !s.Has(uid) {
			t.Errorf("%d come before %s, want %d; it is nominated: %t", got, uid, want, s.Has(uid))
		}
	}
}

// The observer learns that a claim ends: the pod has its node, is gone, or was nominated to another; and only then.
func TestEnds(t *testing.T) {
	var ended freed
	s := New(podrequest.Defaults{}, books{}, &ended)
	s.Observe(pod("q", 200, "a", 1, 1))
	s.Observe(pod("q", 200, "a", 1, 1))
	if len(ended) > 0 {
		t.Fatalf("%v ended", ended)
	}
	s.Observe(pod("q", 200, "b", 1, 1))
	bound := pod("q", 200, "b", 1, 1)
	bound.Spec.NodeName = "b"
	s.Observe(bound)
	s.Observe(pod("r", 200, "c", 1, 1))
	s.remove("r")
	s.remove("r")
	deleted, cleared, plain, unreadable := pod("s", 200, "d", 1, 1), pod("s", 200, "", 1, 1), pod("s", 200, "d", 1, 1), pod("s", 200, "d", 1, 1)
	failed := pod("s", 200, "d", 1, 1)
	failed.Status.Phase = corev1.PodFailed // which leaves the rest of the status as it is
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	plain.Spec.InitContainers, plain.Spec.Containers = nil, nil
	unreadable.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	for _, last := range []*corev1.Pod{deleted, cleared, plain, unreadable, failed} {
		s.Observe(pod("s", 200, "d", 1, 1))
		s.Observe(last)
		s.Observe(last)
	}
	if want := []string{"a", "b", "c", "d", "d", "d", "d", "d"}; !slices.Equal(ended, want) {
		t.Errorf("%v ended, want %v", ended, want)
	}
	s.Bound("x", deleted)
	s.Bound("x", nil)
	s.Bound("y", bound)
	if len(s.pods)+len(s.ending) > 0 {
		t.Errorf("%v and %v are remembered", s.pods, s.ending)
	}
}

// The watch asks for nominated pods and no others.
func TestRun(t *testing.T) {
	client := fake.NewClientset(pod("q", 200, "n", 1, 1))
	asked := make(chan string, 100)
	client.PrependReactor("list", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		asked <- a.(k8stesting.ListAction).GetListRestrictions().Fields.String()
		return false, nil, nil
	})
	watching := make(chan struct{}, 100)
	client.PrependWatchReactor("pods", func(k8stesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(corev1.SchemeGroupVersion.WithResource("pods"), "")
		watching <- struct{}{}
		return true, w, err
	})
	ended := make(freedLater, 100)
	s := New(podrequest.Defaults{}, books{}, ended)
	if s.Synced() {
		t.Error("synced before it began")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, client) }()
	defer func() { cancel(); <-done }()
	if got := <-asked; got != "spec.nodeName=,status.nominatedNodeName!=" {
		t.Errorf("asked for %q", got)
	}
	<-watching
	await.Until(t, "the nominated pod is known", s.Synced)
	p, err := podrequest.Parse(pod("p", 100, "", 1, 1), podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(s.Before(p).On("n"))); got != "1" {
		t.Errorf("%s claims", got)
	}
	if err := client.CoreV1().Pods("ns").Delete(ctx, "q", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case node := <-ended:
		if node != "n" {
			t.Errorf("%s ended", node)
		}
	case <-ctx.Done():
		t.Fatal("the end of its nomination is not observed")
	}
}
