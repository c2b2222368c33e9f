package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// pageSize is how many pods are listed at once: all pods of a large cluster would take gigabytes for a moment.
const pageSize = 500

// Relist lists the pods that have a node from the API server itself, not from a cache, and makes the book equal to the
// list. Older changes that the watch delivers later are then ignored. It returns what changed in the book.
//
// each is called with each listed pod with devices and what the book is going to hold for it; it must not block, and
// must not keep or change the pod. Events of pods wait meanwhile, so that an observer never sees an event before an
// older list. If the list fails the book is unchanged; each may have been called all the same.
//
// Pods that the watch has not shown yet are read again until it has, they are gone, or ctx ends.
//
// No pod may be assumed or unassumed meanwhile.
func (f *Feed) Relist(ctx context.Context, each func(pod *corev1.Pod, facts *ledger.Pod)) ([]ledger.Delta, error) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	var unseen []*corev1.Pod
	var facts []ledger.Pod
	at, err := f.list(ctx, func(pod *corev1.Pod) {
		if !Tracked(pod) {
			return
		}
		truth := LedgerPod(pod, f.o.Release)
		each(pod, &truth)
		if !f.hasShown(pod.UID) {
			unseen = append(unseen, &corev1.Pod{ObjectMeta: key(&pod.ObjectMeta)})
		}
		facts = append(facts, truth)
	})
	if err != nil {
		return nil, fmt.Errorf("listing bound pods: %w", err)
	}
	changed := f.book.Replace(facts, version(at))
	go f.follow(ctx, unseen)
	return changed, nil
}

// list reads the pods that have a node page by page, all as they were at one moment after the call, and returns the
// resourceVersion of that moment. The first page names no version and so is of now; its continue token makes the API
// server answer the other pages from the same moment, or with 410 once it has forgotten that moment.
func (f *Feed) list(ctx context.Context, each func(*corev1.Pod)) (at string, err error) {
	o := metav1.ListOptions{Limit: pageSize}
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

// follow reads pods that a list showed before the watch did until the watch has shown them, which it usually does a
// moment later. But of a pod that ends while the watch is interrupted the watch shows nothing, and only reading it
// tells that it has to leave the book.
func (f *Feed) follow(ctx context.Context, unseen []*corev1.Pod) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: 30 * time.Second, Steps: 1 << 30}
	for len(unseen) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		var left []*corev1.Pod
		for _, pod := range unseen {
			if !f.isResolved(ctx, pod) {
				left = append(left, pod)
			}
		}
		unseen = left
	}
}

// isResolved reports whether the watch has shown a pod, or the pod is gone, in which case it is removed from the book.
func (f *Feed) isResolved(ctx context.Context, pod *corev1.Pod) bool {
	f.feeding.Lock()
	shown := f.hasShown(pod.UID)
	f.feeding.Unlock()
	if shown {
		return true
	}
	now, err := f.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if !IsGone(now, err, pod.UID) {
		return false
	}
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.remove(pod.UID)
	return true
}
