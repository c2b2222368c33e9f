//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

const (
	trickleEvery   = 3 * time.Second
	tricklePodEnds = 45 * time.Second // it runs for a second; this is what a node under load may take
)

// trickle is a pod without devices every few seconds, on each worker in turn, whatever happens to phasegpu.
type trickle struct {
	*kind.Story
	pods   []*corev1.Pod
	paused []pause
	stop   context.CancelFunc
	done   chan error
}

// plain is a pod without devices that ends after a second.
func plain(s *kind.Story, name string) *corev1.Pod {
	pod := s.Pod(name, kind.Runs(stack.App("app"), "sleep=1s"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return pod
}

// pause is a time during which a node stood still.
type pause struct {
	node     string
	from, to time.Time
}

func startTrickle(s *kind.Story) *trickle {
	ctx, stop := context.WithCancel(s.Context())
	t := &trickle{Story: s, stop: stop, done: make(chan error, 1)}
	go func() { t.done <- t.run(ctx) }()
	return t
}

// run creates pods until ctx ends; whether they end is seen later. One of which the webhook is asked while it is
// down would be refused.
func (t *trickle) run(ctx context.Context) error {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		pod := plain(t.Story, fmt.Sprintf("plain-%03d", i))
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: []string{kind.Worker, kind.Worker2}[i%2]}
		created, err := t.Cluster.Create(context.WithoutCancel(ctx), pod)
		if err != nil {
			return fmt.Errorf("a pod without devices was refused: %w", err)
		}
		t.pods = append(t.pods, created)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// end stops the trickle and expects that all its pods were created, were left to the default scheduler and
// ended well and soon: those on a node that stood still, soon after it went on.
func (t *trickle) end() {
	t.Helper()
	t.stop()
	t.Must(<-t.done)
	longest := time.Duration(0)
	for _, pod := range t.pods {
		now, err := t.Cluster.AwaitPhase(t.Context(), pod, corev1.PodSucceeded)
		t.Must(err)
		if now.Spec.SchedulerName != corev1.DefaultSchedulerName {
			t.Errorf("pod %s, without devices, was given to scheduler %q", pod.Name, now.Spec.SchedulerName)
		}
		finished := stack.ContainerStatus(now, "app").State.Terminated.FinishedAt.Time
		began := t.began(now, finished)
		longest = max(longest, finished.Sub(began))
		if finished.Sub(began) > tricklePodEnds {
			t.Errorf("pod %s, without devices, took %v to end", pod.Name, finished.Sub(began))
		}
	}
	t.Logf("%d pods without devices came and went, %v the longest", len(t.pods), longest)
}

// began is when a pod could begin: when it was created, or when its node went on, if it has ended since.
func (t *trickle) began(pod *corev1.Pod, finished time.Time) time.Time {
	began := pod.CreationTimestamp.Time
	for _, p := range t.paused {
		if p.node == pod.Spec.NodeName && began.Before(p.to) && finished.After(p.from) {
			began = p.to
		}
	}
	return began
}
