package requeue

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// Nudger patches pods so that kube-scheduler tries them again. An update of an unscheduled pod that changes
// nothing it schedules by is an event of kind TargetPod/Update, for which kube-scheduler 1.37 moves a
// pod that an extender refused out of the unschedulable pods, and which it remembers for a pod that is
// being scheduled right now (pkg/scheduler/backend/queue, Update).
type Nudger struct {
	Pods corev1client.PodsGetter
	Now  func() time.Time
	// Done is told how each nudge ended: "nudged", "gone", "refused" (for good) or "failed" (it is tried
	// again). It is called by several goroutines.
	Done func(uid, result string)
	Log  *zap.Logger

	queue workqueue.TypedRateLimitingInterface[nudge]
}

type nudge struct{ namespace, name, uid string }

// workers is how many nudges are under way at once: one that the API server is slow to answer must not hold
// up the others.
const workers = 8

// NewNudger returns a nudger. Run must be running.
func NewNudger(pods corev1client.PodsGetter, now func() time.Time, done func(uid, result string), log *zap.Logger) *Nudger {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[nudge](20*time.Millisecond, 10*time.Second)
	return &Nudger{Pods: pods, Now: now, Done: done, Log: log, queue: workqueue.NewTypedRateLimitingQueue(limit)}
}

// Nudge has the pod nudged soon, once however often it is asked for meanwhile.
func (n *Nudger) Nudge(p *podrequest.Request) { n.queue.Add(nudge{p.Namespace, p.Name, p.UID}) }

// Run nudges until the context ends.
func (n *Nudger) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, n.queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { n.work(ctx) })
	}
	running.Wait()
}

func (n *Nudger) work(ctx context.Context) {
	for {
		one, shutdown := n.queue.Get()
		if shutdown {
			return
		}
		err := n.patch(ctx, one)
		result := judge(err)
		n.Done(one.uid, result)
		switch result {
		case "failed":
			n.Log.Warn("nudge failed, trying again", zap.String("pod", one.namespace+"/"+one.name), zap.Error(err))
			n.queue.AddRateLimited(one)
		case "refused":
			n.Log.Warn("nudge refused: the pod waits for kube-scheduler's flush", zap.String("pod", one.namespace+"/"+one.name), zap.Error(err))
			n.queue.Forget(one)
		default:
			n.queue.Forget(one)
		}
		n.queue.Done(one)
	}
}

// judge says what became of a nudge. A conflict is none with the UID, which is answered as invalid: others
// wrote to the pod all the while, and the next try may find it quiet.
func judge(err error) (result string) {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "nudged"
	case apierrors.IsNotFound(err) || isOfAnother(err):
		return "gone"
	case !errors.As(err, &status):
		return "failed" // the connection broke, or the call took too long
	}
	switch code := status.Status().Code; {
	case code == 408 || code == 409 || code == 429 || code >= 500 || code < 400:
		return "failed"
	default:
		return "refused"
	}
}

// isOfAnother reports whether a write was refused because the name is another pod's now.
func isOfAnother(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func (n *Nudger) patch(ctx context.Context, one nudge) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         one.uid, // of another pod of that name it cannot be changed
		"annotations": map[string]string{wire.NudgeAnnotation: strconv.FormatInt(n.Now().UnixMilli(), 10)},
	}})
	if err != nil {
		return err
	}
	_, err = n.Pods.Pods(one.namespace).Patch(ctx, one.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
