package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// PodProblem returns why a bound pod is not accounted for as it should be, nil if it is. facts are those of LedgerPod.
func PodProblem(pod *corev1.Pod, facts *ledger.Pod, byDefault phase.Release) error {
	if facts.First == phase.None {
		return nil
	}
	_, release := Release(pod, byDefault)
	if release != nil {
		release = fmt.Errorf("%w; its peak is held until then", release)
	}
	var record error
	switch {
	case facts.Unreadable != "":
		record = errors.New(facts.Unreadable)
	case facts.Allocation.IsEmpty() && Asks(&pod.Spec):
		record = fmt.Errorf("asks for devices and is on node %s without a record of which: phasegpu did not place it "+
			"and charges it nothing; delete it and let phasegpu-scheduler place it", pod.Spec.NodeName)
	}
	return errors.Join(record, release)
}

// NodeProblem returns why a node takes no pods with devices, nil if it does.
func NodeProblem(facts *ledger.Node) error {
	if facts.Unreadable == "" {
		return nil
	}
	return fmt.Errorf("%s; the node takes no new pods with devices", facts.Unreadable)
}

// changeNode books a change of a node.
func (f *Feed) changeNode(o, n any) {
	old, _ := o.(*corev1.Node)
	new, _ := n.(*corev1.Node)
	if new == nil {
		f.o.Observer.Observe(f.book.RemoveNode(old.Name))
		return
	}
	facts := Node(new)
	f.o.Observer.Observe(f.book.SetNode(facts))
	f.report("Node", new.Name, NodeProblem(&facts), func() error {
		if old == nil {
			return nil
		}
		facts := Node(old)
		return NodeProblem(&facts)
	})
}

// changeQuota books a change of a quota.
func (f *Feed) changeQuota(o, n any) {
	old, _ := o.(*corev1.ResourceQuota)
	new, _ := n.(*corev1.ResourceQuota)
	switch {
	case new == nil:
		f.o.Observer.Observe(f.book.RemoveQuota(old.Namespace, old.Name))
		return
	case old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec):
		return // its status has the API server's count, and the book would take that for a change
	}
	facts, err := Quota(new)
	f.o.Observer.Observe(f.book.SetQuota(facts))
	f.report("ResourceQuota", new.Namespace+"/"+new.Name, err, func() (err error) {
		if old != nil {
			_, err = Quota(old)
		}
		return err
	})
}

// report reports a problem unless it is the same as before.
func (f *Feed) report(kind, object string, problem error, before func() error) {
	if problem == nil {
		return
	}
	if b := before(); b == nil || b.Error() != problem.Error() {
		f.o.Observer.ObserveProblem(kind, object, problem)
	}
}
