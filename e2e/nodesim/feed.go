package nodesim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/e2e/podfeed"
)

// watch follows the bound pods, and returns after the first list.
func (s *Simulator) watch(ctx context.Context) error {
	feed := podfeed.New(s.client, fields.OneTermNotEqualSelector("spec.nodeName", ""), s.see)
	s.spawn(func() { feed.Run(s.ctx) })
	select {
	case <-feed.Listed():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("node simulation: listing pods: %w", ctx.Err())
	}
}

// see takes a change of the bound pods.
func (s *Simulator) see(c podfeed.Change) {
	for _, pod := range c.Gone {
		s.records.gone(pod)
		s.forget(pod.UID)
	}
	if c.List {
		s.records.listed()
	}
	for _, pod := range c.Pods {
		s.records.observed(pod)
		s.observe(pod)
	}
}

// observe hands a pod's state to its worker. A pod that has ended before it was seen gets none.
func (s *Simulator) observe(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.pods[pod.UID]; ok {
		p.update(pod)
		return
	}
	if ended(pod.Status.Phase) {
		return
	}
	p := newPodWorker(s, pod)
	s.pods[pod.UID] = p
	close(s.more)
	s.more = make(chan struct{})
	if k, ok := s.kubelets[p.node]; ok {
		k.add(p)
	}
}

func (s *Simulator) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.pods[uid]; ok {
		close(p.gone)
		delete(s.pods, uid)
		if k, ok := s.kubelets[p.node]; ok {
			k.release(uid)
		}
	}
}

// worker waits for the worker of a pod, that is until the pod is bound and seen. A pod without UID is
// looked up by its name.
func (s *Simulator) worker(ctx context.Context, pod *corev1.Pod) (*podWorker, error) {
	for {
		s.mu.Lock()
		p, more := s.find(pod), s.more
		s.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			return nil, fmt.Errorf("pod %s: the simulation has ended", nameOf(pod))
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s is on no simulated node: %w", nameOf(pod), ctx.Err())
		}
	}
}

func (s *Simulator) find(pod *corev1.Pod) *podWorker {
	if pod.UID != "" {
		return s.pods[pod.UID]
	}
	for _, p := range s.pods {
		if p.name == nameOf(pod) {
			return p
		}
	}
	return nil
}
