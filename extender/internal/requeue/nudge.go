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

// The results of nudges. A failed one is tried again.
const (
	resultNudged  = "nudged"
	resultGone    = "gone"
	resultRefused = "refused"
	resultFailed  = "failed"
)

// Results takes the result of each nudge, from several goroutines.
type Results interface {
	NudgeDone(uid, result string)
}

// Nudger patches pods so that kube-scheduler tries them again. An update of an unscheduled pod that changes nothing it
// schedules by is an event of kind TargetPod/Update, for which kube-scheduler 1.37 moves a pod that an extender refused
// out of the unschedulable pods, and which it remembers for a pod that is being scheduled right now
// (pkg/scheduler/backend/queue, Update).
type Nudger struct {
	pods    corev1client.PodsGetter
	now     func() time.Time
	results Results
	log     *zap.Logger
	queue   workqueue.TypedRateLimitingInterface[nudge]
}

type nudge struct{ namespace, name, uid string }

// workers is how many nudges are under way at once, so that a slow answer does not hold up the others.
const workers = 8

// NewNudger returns a nudger. Run nudges.
func NewNudger(pods corev1client.PodsGetter, now func() time.Time, results Results, log *zap.Logger) *Nudger {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[nudge](20*time.Millisecond, 10*time.Second)
	return &Nudger{pods: pods, now: now, results: results, log: log, queue: workqueue.NewTypedRateLimitingQueue(limit)}
}

// Nudge has the pod nudged soon; further calls until then change nothing.
func (n *Nudger) Nudge(r *podrequest.Request) { n.queue.Add(nudge{r.Namespace, r.Name, r.UID}) }

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
		n.results.NudgeDone(one.uid, result)
		pod := zap.String("pod", one.namespace+"/"+one.name)
		switch result {
		case resultFailed:
			n.log.Warn("nudge failed, trying again", pod, zap.Error(err))
			n.queue.AddRateLimited(one)
		case resultRefused:
			n.log.Warn("nudge refused: the pod waits for kube-scheduler's flush", pod, zap.Error(err))
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
		return resultNudged
	case kube.Gone:
		return resultGone
	case kube.Refused:
		return resultRefused
	default:
		return resultFailed
	}
}

func (n *Nudger) patch(ctx context.Context, one nudge) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         one.uid, // of another pod of that name it cannot be changed
		"annotations": map[string]string{wire.NudgeAnnotation: strconv.FormatInt(n.now().UnixMilli(), 10)},
	}})
	if err != nil {
		return err
	}
	_, err = n.pods.Pods(one.namespace).Patch(ctx, one.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
