package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

const churnNamespace = "inits"

// initsPerPod is how many init containers of a pod can finish.
const initsPerPod = 10

// churn is bound pods whose init containers finish at a fixed rate. The zero value does nothing.
type churn struct {
	sim      *nodesim.Simulator
	pods     []*corev1.Pod
	rate     int
	finished atomic.Int64
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// newChurn creates enough pods for so long and waits until they run.
func (b *bench) newChurn(ctx context.Context, mode Mode, long time.Duration) (*churn, error) {
	n := (int(long.Seconds()*float64(b.Inits)) + initsPerPod - 1) / initsPerPod
	pods, err := b.CreateAll(ctx, n, func(i int) *corev1.Pod {
		gpu := func(mib int64) []stack.Limit {
			if !mode.Extender {
				return nil
			}
			return []stack.Limit{stack.GPU(1, mib)}
		}
		var containers []stack.Container
		for k := range initsPerPod { // each releases something when it ends
			containers = append(containers, stack.Init(fmt.Sprintf("init-%d", k), gpu(int64(4000-200*k))...))
		}
		pod := stack.NewPod(churnNamespace, fmt.Sprintf("round-%03d-%04d", b.round, i),
			append(containers, stack.App("app", gpu(podMiB)...))...)
		pod.Spec.SchedulerName = stack.SchedulerName
		return pod
	})
	if err != nil {
		return nil, err
	}
	err = stack.Each(n, func(i int) error { return b.Sim.AwaitRunning(ctx, pods[i], "init-0") })
	return &churn{sim: b.Sim, pods: pods, rate: b.Inits}, err
}

// start lets one init container finish after the other, of one pod after the other, until stop or the last.
func (c *churn) start(ctx context.Context) {
	if len(c.pods) == 0 {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.running.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(c.rate))
		defer tick.Stop()
		for i := range len(c.pods) * initsPerPod {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			c.running.Go(func() {
				if c.sim.Finish(ctx, c.pods[i%len(c.pods)], fmt.Sprintf("init-%d", i/len(c.pods)), 0) == nil {
					c.finished.Add(1)
				}
			})
		}
	})
}

func (c *churn) stop() {
	if c.cancel != nil {
		c.cancel()
		c.running.Wait()
	}
}

// pace is how many init containers finished since some moment.
type pace struct {
	of    *churn
	began time.Time
	had   int64
}

func (c *churn) meter() pace { return pace{c, time.Now(), c.finished.Load()} }

func (p pace) perSecond() float64 {
	return float64(p.of.finished.Load()-p.had) / time.Since(p.began).Seconds()
}
