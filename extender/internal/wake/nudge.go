package wake

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/ask"
)

// Nudger patches pods so that kube-scheduler tries them again. An update of an unscheduled pod that changes
// nothing it schedules by is an event of kind TargetPod/Update, for which kube-scheduler 1.37 moves a
// pod that an extender refused out of the unschedulable pods, and which it remembers for a pod that is
// being scheduled right now (pkg/scheduler/backend/queue, Update).
type Nudger struct {
	Pods corev1client.PodsGetter
	Now  func() time.Time
	// Done is told how each nudge ended: "nudged", "gone" or "failed" (it is tried again).
	Done func(uid, result string)
	Log  *zap.Logger

	queue workqueue.TypedRateLimitingInterface[nudge]
}

type nudge struct{ namespace, name, uid string }

// NewNudger returns a nudger. Run must be running.
func NewNudger(pods corev1client.PodsGetter, now func() time.Time, done func(uid, result string), log *zap.Logger) *Nudger {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[nudge](20*time.Millisecond, 10*time.Second)
	return &Nudger{Pods: pods, Now: now, Done: done, Log: log, queue: workqueue.NewTypedRateLimitingQueue(limit)}
}

// Nudge has the pod nudged soon, once however often it is asked for meanwhile.
func (n *Nudger) Nudge(p *ask.Pod) { n.queue.Add(nudge{p.Namespace, p.Name, p.UID}) }

// Run nudges until the context ends.
func (n *Nudger) Run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		n.queue.ShutDown()
	}()
	for {
		one, shutdown := n.queue.Get()
		if shutdown {
			return
		}
		switch err := n.patch(ctx, one); {
		case err == nil:
			n.Done(one.uid, "nudged")
			n.queue.Forget(one)
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // gone, or another pod of that name
			n.Done(one.uid, "gone")
			n.queue.Forget(one)
		default:
			n.Done(one.uid, "failed")
			n.Log.Warn("nudge failed, trying again", zap.String("pod", one.namespace+"/"+one.name), zap.Error(err))
			n.queue.AddRateLimited(one)
		}
		n.queue.Done(one)
	}
}

func (n *Nudger) patch(ctx context.Context, one nudge) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         one.uid, // another pod of that name is a conflict
		"annotations": map[string]string{wire.NudgeAnnotation: strconv.FormatInt(n.Now().UnixMilli(), 10)},
	}})
	if err != nil {
		return err
	}
	_, err = n.Pods.Pods(one.namespace).Patch(ctx, one.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
