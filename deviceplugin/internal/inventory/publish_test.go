package inventory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/await"
)

const annotation = "hami.io/node-nvidia-register"

// The annotation is written when it differs from the inventory, and only then: whatever else changes on
// the node, an edit, a lost annotation of a node registered anew, a refused patch.
func TestPublish(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1"}}
	client := fake.NewClientset(node)
	var refuse atomic.Bool
	var patches atomic.Int32
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		patches.Add(1)
		if refuse.CompareAndSwap(true, false) {
			return true, nil, errors.New("refused")
		}
		return false, nil, nil
	})
	current, offer := &Current{}, &offer{is: true}
	ctx, end := context.WithCancel(t.Context())
	results, done := make(published, 100), make(chan struct{})
	go func() {
		Publish(ctx, client, "n1", current, offer, results)
		close(done)
	}()
	defer func() { end(); <-done }()

	set := func(cards ...Card) string {
		t.Helper()
		devices, err := Shape{Replicas: 2, MemoryScaling: 1}.Devices(cards)
		must(t, err)
		current.Set(devices)
		text, err := wire.EncodeInventory(devices)
		must(t, err)
		return text
	}
	annotated := func(want string) {
		t.Helper()
		await.Until(t, "annotation "+want, func() bool {
			got, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			return err == nil && got.Annotations[annotation] == want
		})
	}
	refuse.Store(true)
	want := set(Card{UUID: "a", MemoryMiB: 10, Healthy: true})
	annotated(want)
	if err := <-results; err == nil {
		t.Error("the refused patch was not reported")
	}
	want = set(Card{UUID: "a", MemoryMiB: 10})
	annotated(want)

	// A healthy device that kubelet would not allocate is not published as one.
	all := set(Card{UUID: "a", MemoryMiB: 10, Healthy: true})
	annotated(all)
	offer.set(false)
	annotated(want)
	offer.set(true)
	annotated(all)
	want = set(Card{UUID: "a", MemoryMiB: 10})
	annotated(want)
	patches.Add(-4)

	// An edit is undone.
	edited, _ := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	edited.Annotations = map[string]string{annotation: "[]"}
	if _, err := client.CoreV1().Nodes().Update(ctx, edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	annotated(want)
	if n := patches.Load(); n != 4 {
		t.Errorf("%d patches, want 4: one refused, and one for each change", n)
	}

	// Deleted and registered again.
	must(t, client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}))
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	annotated(want)
}

// published are the results of patches.
type published chan error

func (p published) Published(err error) { p <- err }

// offer is whether kubelet would allocate.
type offer struct {
	mu      sync.Mutex
	is      bool
	changed chan struct{}
}

func (o *offer) Get() (bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.is, o.changed
}

func (o *offer) set(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.is = is
	close(o.changed)
	o.changed = nil
}

func TestWithdraw(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	current := &Current{}
	if err := Withdraw(t.Context(), client, "n1", current); err != nil || len(client.Actions()) > 0 {
		t.Errorf("error %v, requests %v: nothing is known that could be withdrawn", err, client.Actions())
	}
	devices, err := Shape{Replicas: 2, MemoryScaling: 1}.Devices([]Card{{UUID: "a", MemoryMiB: 10, Healthy: true}})
	must(t, err)
	current.Set(devices)
	must(t, Withdraw(t.Context(), client, "n1", current))
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	must(t, err)
	got, err := wire.DecodeInventory(Family, node.Annotations[annotation], 1)
	if err != nil || len(got) != 1 || got[0].Healthy {
		t.Errorf("published is %+v, error %v; want one device that is not healthy", got, err)
	}
	if now, _, _ := current.Get(); !now[0].Healthy {
		t.Error("the card itself was made unhealthy")
	}
}

func TestNothingIsPublishedBeforeTheInventoryIsKnown(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{annotation: "[]"}}}
	if patched, err := publish(t.Context(), client, &node, nil); patched || err != nil {
		t.Errorf("patched %t, error %v: the annotation says what it should", patched, err)
	}
	if _, known, _ := new(Current).Get(); known {
		t.Error("an inventory that was never set is known")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
