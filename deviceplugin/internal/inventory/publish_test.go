package inventory

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/core/wire"
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
	current := &Current{}
	ctx, end := context.WithCancel(t.Context())
	results, done := make(chan error, 100), make(chan struct{})
	go func() {
		Publish(ctx, client, "n1", current, func(err error) { results <- err })
		close(done)
	}()
	defer func() { end(); <-done }()

	set := func(cards ...Card) string {
		t.Helper()
		devices, err := Shape{Replicas: 2, MemoryScaling: 1}.Devices(cards)
		if err != nil {
			t.Fatal(err)
		}
		current.Set(devices)
		text, err := wire.EncodeInventory(devices)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	await := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			got, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			if err == nil && got.Annotations[annotation] == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("annotation %q (error %v), want %q", got.Annotations[annotation], err, want)
			}
		}
	}
	refuse.Store(true)
	want := set(Card{UUID: "a", MemoryMiB: 10, Healthy: true})
	await(want)
	if err := <-results; err == nil {
		t.Error("the refused patch was not told of")
	}
	want = set(Card{UUID: "a", MemoryMiB: 10})
	await(want)

	// An edit is undone.
	edited, _ := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	edited.Annotations = map[string]string{annotation: "[]"}
	if _, err := client.CoreV1().Nodes().Update(ctx, edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(want)
	if n := patches.Load(); n != 4 {
		t.Errorf("%d patches, want 4: one refused, and one for each change", n)
	}

	// Deleted and registered again.
	if err := client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(want)
}

func TestNothingIsPublishedBeforeTheInventoryIsKnown(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{annotation: "[]"}}}
	if patched, err := publish(t.Context(), client, &node, nil); patched || err != nil {
		t.Errorf("patched %t, error %v: the annotation says what it should", patched, err)
	}
	if _, known, _ := new(Current).Get(); known {
		t.Error("an inventory that nobody set is known")
	}
}
