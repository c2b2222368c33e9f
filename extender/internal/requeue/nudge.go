package requeue

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
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
		result := resultOf(err)
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

// resultOf returns what became of a nudge. After a conflict it is tried again: the patch names no resourceVersion, so
// others wrote to the pod all the while.
func resultOf(err error) string {
	switch kube.WriteOutcome(err) {
	case kube.Done:
		return "nudged"
	case kube.Gone:
		return "gone"
	case kube.Refused:
		return "refused"
	default:
		return "failed"
	}
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
