package kube

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// settle follows the pods that a list showed before the watch did. The watch usually shows them a moment
// later. But a pod that ends while the watch is interrupted is never shown, and its end neither, so nobody
// would take it off the books: of such a pod the API server itself is asked, until either has told.
func (f *Feed) settle(ctx context.Context, ahead []*corev1.Pod) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: 30 * time.Second, Steps: 1 << 30}
	for len(ahead) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		var open []*corev1.Pod
		for _, pod := range ahead {
			if !f.settled(pod.UID) && !f.ended(ctx, pod) {
				open = append(open, pod)
			}
		}
		ahead = open
	}
}

// settled reports whether the watch has shown a pod.
func (f *Feed) settled(uid types.UID) bool {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	return f.hasShown(uid)
}

// ended asks the API server for a pod that the watch has not shown, and tells of its end if it is gone.
func (f *Feed) ended(ctx context.Context, pod *corev1.Pod) bool {
	now, err := f.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if !IsGone(now, err, pod.UID) {
		return false
	}
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.forget(pod.UID)
	return true
}
