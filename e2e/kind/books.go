package kind

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Reserved waits until so many MiB are reserved on a card.
func (s *Story) Reserved(card string, memoryMiB int64) {
	s.Helper()
	s.Must(s.Cluster.AwaitDevice(s.Context(), card, memoryMiB))
	s.Tell("%s: %d MiB reserved", card, memoryMiB)
}

// Holds waits until the memory reserved for a pod over all cards is as given, in MiB.
func (s *Story) Holds(pod *corev1.Pod, memoryMiB int64) {
	s.Helper()
	s.Must(s.Cluster.AwaitReserved(s.Context(), pod, memoryMiB))
	s.Tell("%s: %d MiB reserved", pod.Name, memoryMiB)
}

// Unmoved expects that the books do not change at all, not even for a moment, while something happens to a
// pod. It ends when the extender has seen what happened.
func (s *Story) Unmoved(pod *corev1.Pod, while func()) {
	s.Helper()
	before := s.seen(pod)
	while()
	after := s.seen(pod)
	if after.Generation != before.Generation {
		s.Fatalf("the books changed %d times:\nbefore %+v\nafter  %+v", after.Generation-before.Generation, before.Reserved(), after.Reserved())
	}
	s.Tell("%s: what is reserved never moved", pod.Name)
}

// seen returns the books that know of a pod what the API server does.
func (s *Story) seen(pod *corev1.Pod) *stack.Ledger {
	s.Helper()
	s.Must(s.Cluster.AwaitSeen(s.Context(), pod))
	l, err := s.Cluster.Ledger(s.Context())
	s.Must(err)
	return l
}

// Charged waits until the namespace is charged so much NVIDIA memory, in MiB × devices.
func (s *Story) Charged(memoryMiB int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("namespace %s is charged %d MiB", s.Namespace, memoryMiB), func(ctx context.Context) error {
		l, err := s.Cluster.Ledger(ctx)
		if err != nil {
			return err
		}
		if got := l.Used()[s.Namespace+"/NVIDIA"].MemoryMiB; got != memoryMiB {
			return fmt.Errorf("it is charged %d MiB", got)
		}
		return nil
	})
	s.Tell("the namespace is charged %d MiB", memoryMiB)
}

// holders describes who holds something of a card.
func holders(l *stack.Ledger, card string) string {
	var all []string
	for _, n := range l.Nodes {
		for _, p := range n.Pods {
			for _, d := range p.Devices {
				if d.UUID == card {
					all = append(all, fmt.Sprintf("%s/%s (%d MiB)", p.Namespace, p.Name, d.Reserved.MemoryMiB))
				}
			}
		}
	}
	return strings.Join(all, ", ")
}
