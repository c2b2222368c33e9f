//go:build kind

package kind_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// A pod is placed by its peak, and what its finished init container held goes to a pod that waits for it,
// by itself: 21 times of 21. How long that takes is logged; the goal is two seconds.
func TestInitShrink(t *testing.T) {
	const rounds, goal = 7, 2 * time.Second
	s := kind.Begin(t)
	w := witness(s)
	var delays []time.Duration
	for round := range rounds {
		lanes := []*lane{
			newLane(s, round, kind.CardA, kind.CardMiB),
			newLane(s, round, kind.CardB, kind.CardMiB),
			newLane(s, round, kind.CardC, kind.CardCMiB),
		}
		for _, l := range lanes {
			l.fill(s)
		}
		for _, l := range lanes { // one after the other: nothing else goes on while the clock runs
			delays = append(delays, l.handOver(s, w))
		}
		for _, l := range lanes {
			s.Running(l.waiter, "serve")
			s.Reserved(l.card, 10240+12288)
		}
		for _, l := range lanes {
			s.Delete(l.holder, l.waiter)
		}
	}
	notOver(s, w)
	late := len(slices.DeleteFunc(slices.Clone(delays), func(d time.Duration) bool { return d <= goal }))
	s.Logf("from the exit as the API server shows it to the waiting pod's node, %d of %d later than %v:\n%s",
		late, len(delays), goal, stack.Distribution(delays))
}

// lane is a card on which an init container leaves no room for a pod that waits.
type lane struct {
	card           string
	initMiB        int64
	holder, waiter *corev1.Pod
}

func newLane(s *kind.Story, round int, card string, cardMiB int64) *lane {
	name := fmt.Sprintf("%d-%s", round, card[len("GPU-"):])
	l := &lane{card: card, initMiB: cardMiB - 4096}
	l.holder = s.Submit(kind.Pin(s.Pod("holder-"+name,
		stack.Init("load", stack.GPU(1, l.initMiB)), stack.App("train", stack.GPU(1, 10240))), card))
	l.waiter = kind.Pin(s.Pod("waiter-"+name, stack.App("serve", stack.GPU(1, 12288))), card)
	return l
}

// fill waits until the init container runs, and has the other pod wait.
func (l *lane) fill(s *kind.Story) {
	s.Helper()
	s.Running(l.holder, "load")
	s.Reserved(l.card, l.initMiB)
	l.waiter = s.Submit(l.waiter)
	s.Pending(l.waiter, "Insufficient GPU memory")
}

// handOver ends the init container, and returns how long after that was known the waiting pod got its node.
func (l *lane) handOver(s *kind.Story, w *stack.Witness) time.Duration {
	s.Helper()
	exited := endOf(s, w, l.holder, "load")
	s.Finish(l.holder, "load", 0)
	bound, at, err := w.Within(s.Context(), 10*time.Second, l.waiter, "is bound", stack.Bound)
	s.Must(err)
	delay := at.Sub(exited())
	s.Logf("%s: on node %s %v later", l.waiter.Name, bound.Spec.NodeName, delay.Round(time.Millisecond))
	s.Holds(l.holder, 10240)
	return delay
}

// endOf begins to watch a running container. The function that it returns waits until the API server has shown its end,
// and returns when that was.
func endOf(s *kind.Story, w *stack.Witness, pod *corev1.Pod, container string) (ended func() time.Time) {
	type moment struct {
		at  time.Time
		err error
	}
	seen := make(chan moment, 1)
	go func() {
		_, _, err := w.Await(s.Context(), pod, "has "+container+" ended", func(p *corev1.Pod) error {
			if c := stack.ContainerStatus(p, container); c == nil || c.State.Running != nil {
				return errors.New(stack.Describe(p))
			}
			return nil
		})
		seen <- moment{time.Now(), err}
	}()
	return func() time.Time {
		s.Helper()
		end := <-seen
		s.Must(end.err)
		return end.at
	}
}
