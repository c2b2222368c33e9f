package bind

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// callTimeout bounds one call to the API server. One that takes longer has an unknown outcome.
const callTimeout = 5 * time.Second

// post writes the binding and returns when the outcome is definite: nil when the pod is bound to that node, an error
// when it is not and this binding will not bind it.
//
// While the outcome is unknown, the same POST is repeated: with the UID as precondition it can bind this pod to this
// node or do nothing.
func (b *Binder) post(binding *corev1.Binding) error {
	ctx := context.Background() // the outcome matters even when the client has gone away
	pods := b.Pods.Pods(binding.Namespace)
	retry := workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 2*time.Second)
	unknown := false // an earlier POST may have been carried out
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := pods.Bind(call, binding, metav1.CreateOptions{})
		cancel()
		outcome := kube.WriteOutcome(err)
		refused := outcome == kube.Refused || outcome == kube.Gone
		switch {
		case outcome == kube.Done:
			return nil
		case refused && !unknown:
			return err
		}
		call, cancel = context.WithTimeout(ctx, callTimeout)
		pod, readErr := pods.Get(call, binding.Name, metav1.GetOptions{})
		cancel()
		switch {
		case kube.IsGone(pod, readErr, binding.UID):
			return fmt.Errorf("%w: %w", errGone, err)
		case readErr != nil:
			b.Log.Warn("binding not resolved", zap.String("pod", binding.Namespace+"/"+binding.Name),
				zap.String("node", binding.Target.Name), zap.Error(err), zap.NamedError("read", readErr))
		case pod.Spec.NodeName == binding.Target.Name:
			return nil
		case pod.Spec.NodeName != "":
			return fmt.Errorf("is bound to node %s already: %w", pod.Spec.NodeName, err)
		case refused, outcome == kube.Conflict, pod.DeletionTimestamp != nil:
			return err
		}
		unknown = true
		if may := b.Lease.MayBind(b.stopping); may != nil && readErr == nil {
			// Another extender binds now, and its books do not hold our assumption. It lists what is bound before it
			// begins; should this POST still be carried out, the watch will show it.
			return because(notLeading, errors.Join(may, err))
		}
		select {
		case <-time.After(retry.When("")):
		case <-b.stopping.Done():
			return errors.Join(errStopped, err)
		}
	}
}
