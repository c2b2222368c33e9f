package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// page is how many pods are listed at once: all of a large cluster's would take gigabytes for a moment.
const page = 500

// Relist lists the pods that have a node from the API server itself, not from a cache, and makes the
// book agree with that. What the watch delivers later but is older is then known to be late. told gets each
// listed pod with devices, which it must not keep or change, and Relist returns what changed in the books.
// Events of pods wait meanwhile: who keeps something beside the books must not be told of an event first and
// of the older list then. told must not block. Pods that the watch has not shown yet are followed until it has,
// or they are gone, or ctx ends. When the list fails the books are as before; told may have got some pods, as
// they were.
//
// Nobody may assume or withdraw pods meanwhile.
func (f *Feed) Relist(ctx context.Context, told func(pod *corev1.Pod)) ([]ledger.Delta, error) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	var ahead []*corev1.Pod
	var truths []ledger.Pod
	at, err := f.list(ctx, func(pod *corev1.Pod) {
		if !Tracked(pod) {
			return
		}
		told(pod)
		if !f.hasShown(pod.UID) {
			ahead = append(ahead, &corev1.Pod{ObjectMeta: key(&pod.ObjectMeta)})
		}
		truths = append(truths, LedgerPod(pod, f.o.Release))
	})
	if err != nil {
		return nil, fmt.Errorf("listing bound pods: %w", err)
	}
	changed := f.book.Replace(truths, version(at))
	go f.settle(ctx, ahead)
	return changed, nil
}

// list reads the pods that have a node, page by page, as they all were at one moment after it was called, and
// returns the resourceVersion of that moment: a first page without a version is of now, and its continue token
// has the API server take the others from the same moment, or refuse to when it has forgotten that (410; the
// caller begins anew).
func (f *Feed) list(ctx context.Context, each func(*corev1.Pod)) (at string, err error) {
	o := metav1.ListOptions{Limit: page}
	bound(&o)
	for {
		list, err := f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if o.Continue == "" {
			at = list.ResourceVersion
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return at, nil
		}
	}
}
