package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// settle follows the pods that a list showed before the watch did. The watch usually shows them a moment
// later. But a pod that ends while the watch is interrupted is never shown, and its end neither, so nobody
// would take it off the books: of such a pod the API server itself is asked, until either has told.
func (f *Feed) settle(ctx context.Context, ahead []*known) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: 30 * time.Second, Steps: 1 << 30}
	for len(ahead) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		var open []*known
		for _, pod := range ahead {
			if f.UID(pod.namespace, pod.name) != pod.uid && !f.ended(ctx, pod) {
				open = append(open, pod)
			}
		}
		ahead = open
	}
}

// ended asks the API server for a pod that the watch has not shown, and tells of its end if it is gone.
func (f *Feed) ended(ctx context.Context, pod *known) bool {
	now, err := f.client.CoreV1().Pods(pod.namespace).Get(ctx, pod.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && (err != nil || now.UID == pod.uid) {
		return false // it is there, or nobody knows: asked again
	}
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.forget(pod)
	return true
}
