package nominated

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
	"github.com/phasegpu/phasegpu/gen/await"
)

func pod(uid string, priority int32, nominated string, init, app int64) *corev1.Pod {
	return sample.Nominated(sample.Pod(uid, init, app), priority, nominated)
}

// of lists nominated pods.
func of(pods ...*corev1.Pod) []*corev1.Pod { return pods }

func parse(t *testing.T, pod *corev1.Pod) *podrequest.Request {
	t.Helper()
	r, err := podrequest.Parse(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return r
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
func TestAhead(t *testing.T) {
	for _, test := range []struct {
		name      string
		nominated []*corev1.Pod
		held      int64  // by pod h
		ending    bool   // pod h
		own       string // node to which p itself was nominated
		left      int64
	}{
		{name: "none", left: 24576},
		{name: "higher priority: its peak", nominated: of(pod("q", 200, "n", 16000, 4000)), left: 8576},
		{name: "same priority", nominated: of(pod("q", 100, "n", 1, 16000)), left: 8576},
		{name: "lower priority", nominated: of(pod("q", 99, "n", 1, 16000)), left: 24576},
		{name: "to another node", nominated: of(pod("q", 200, "other", 1, 16000)), left: 24576},
		{name: "itself", nominated: of(pod("p", 100, "n", 1, 16000)), own: "n", left: 24576},
		{name: "both to one node, the other first", nominated: of(pod("a", 100, "n", 1, 16000)), own: "n", left: 8576},
		{name: "both to one, the other second", nominated: of(pod("q", 100, "n", 1, 16000)), own: "n", left: 24576},
		{name: "its binding is on its way", nominated: of(pod("booked", 200, "n", 1, 16000)), left: 24576},
		{name: "two", nominated: of(pod("q", 200, "n", 1, 16000), pod("r", 300, "n", 8000, 1)), left: 576},
		{
			name: "two of which only the one with the higher priority fits", left: 14576,
			nominated: of(pod("q", 200, "n", 1, 16000), pod("r", 300, "n", 10000, 1)),
		},
		{name: "one that no longer fits", nominated: of(pod("q", 200, "n", 1, 16000)), held: 10000, left: 14576},
		{
			name: "one that waits for a pod's end", left: -1,
			nominated: of(pod("q", 200, "n", 1, 16000)), held: 10000, ending: true,
		},
		{
			name: "what is neither its nor the ending pod's", left: 76,
			nominated: of(pod("q", 200, "n", 1, 16000)), held: 8500, ending: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := sample.NewBook()
			book.Add("n", 1)
			if test.held > 0 {
				book.Hold("h", "n", "n-0", 0, test.held)
			}
			s := New(podrequest.Defaults{}, books{"booked"}, nil)
			for _, q := range test.nominated {
				s.Observe(q)
			}
			if test.ending {
				h := &corev1.Pod{}
				h.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				s.Bound("h", h)
			}
			var scratch placement.Scratch
			fits := func(mib int64) bool {
				p := parse(t, pod("p", 100, test.own, 1, mib))
				_, refusal := nodefit.Fit(&scratch, p, s.Ahead(p).View(&scratch, book.Node("n")), "", nil)
				return !refusal.Refused()
			}
			if test.left > 0 && !fits(test.left) || fits(max(test.left, 0)+1) {
				t.Errorf("%v with %d MiB, %v with one more", fits(test.left), test.left, fits(max(test.left, 0)+1))
			}
		})
	}
}

// No pod is ahead without a set, on an unknown node, and on a device that is gone.
func TestNoneAhead(t *testing.T) {
	p := parse(t, pod("p", 100, "", 1, 1))
	var none *Set
	v := &ledger.View{Name: "n", Known: true}
	if none.Ahead(p).View(&placement.Scratch{}, v) != v {
		t.Error("without a set, another view")
	}
	s := New(podrequest.Defaults{}, books{}, nil)
	s.Observe(pod("q", 200, "unknown", 1, 1))
	if s.Ahead(p).View(&placement.Scratch{}, nil) != nil {
		t.Error("of an unknown node, a view")
	}
	entry := &ledger.Entry{Reserved: phase.Reservation{Devices: []phase.Holding{{UUID: "gone"}}}}
	if got := v.With(entry); len(got.Held) > 0 {
		t.Errorf("%v is held of no device", got.Held)
	}
}

// Two pods of one priority, nominated to one node after they were parsed: one of them is ahead, not both or none.
func TestNominatedSinceItWasRead(t *testing.T) {
	s := New(podrequest.Defaults{}, books{}, nil)
	for _, uid := range []string{"a", "b"} {
		s.Observe(pod(uid, 100, "n", 1, 1))
	}
	for uid, want := range map[string]int{"a": 0, "b": 1} {
		p := parse(t, pod(uid, 100, "", 1, 1))
		if got := len(s.Ahead(p).On("n")); got != want || !s.Has(uid) {
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
	again := func() *corev1.Pod { return pod("s", 200, "d", 1, 1) }
	deleted, cleared, plain, unreadable, failed := again(), pod("s", 200, "", 1, 1), again(), again(), again()
	failed.Status.Phase = corev1.PodFailed // which leaves the rest of the status as it is
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	plain.Spec.InitContainers, plain.Spec.Containers = nil, nil
	unreadable.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "tetris"}
	for _, last := range []*corev1.Pod{deleted, cleared, plain, unreadable, failed} {
		s.Observe(again())
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
	p := parse(t, pod("p", 100, "", 1, 1))
	if got := fmt.Sprint(len(s.Ahead(p).On("n"))); got != "1" {
		t.Errorf("%s ahead", got)
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
