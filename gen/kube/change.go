package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// PodProblem returns what keeps a bound pod, of which LedgerPod told the truth, from being accounted for as it
// should be, nil when nothing does.
func PodProblem(pod *corev1.Pod, truth *ledger.Pod, byDefault phase.Release) error {
	if truth.First == phase.None {
		return nil
	}
	_, release := Release(pod, byDefault)
	if release != nil {
		release = fmt.Errorf("%w; its peak is held until then", release)
	}
	var record error
	switch {
	case truth.Unreadable != "":
		record = errors.New(truth.Unreadable)
	case truth.Allocation.IsEmpty() && Asks(&pod.Spec):
		record = fmt.Errorf("asks for devices and is on node %s without a record of which: phasegpu did not place it and charges it nothing; delete it and let phasegpu-scheduler place it", pod.Spec.NodeName)
	}
	return errors.Join(record, release)
}

// node tells the book a change of a node.
func (f *Feed) node(o, n any) {
	old, _ := o.(*corev1.Node)
	new, _ := n.(*corev1.Node)
	if new == nil {
		f.o.OnNode(f.book.RemoveNode(old.Name))
		return
	}
	truth := Node(new)
	f.o.OnNode(f.book.SetNode(truth))
	f.report(new, NodeProblem(&truth), func() error {
		if old == nil {
			return nil
		}
		truth := Node(old)
		return NodeProblem(&truth)
	})
}

// NodeProblem returns what keeps a node from taking pods with devices, nil when nothing does.
func NodeProblem(truth *ledger.Node) error {
	if truth.Unreadable == "" {
		return nil
	}
	return fmt.Errorf("%s; the node takes no new pods with devices", truth.Unreadable)
}

// quota tells the book a change of a quota.
func (f *Feed) quota(o, n any) {
	old, _ := o.(*corev1.ResourceQuota)
	new, _ := n.(*corev1.ResourceQuota)
	switch {
	case new == nil:
		f.o.OnQuota(f.book.RemoveQuota(old.Namespace, old.Name))
		return
	case old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec):
		return // its status counts what the API server charges; the book would take it for a change
	}
	truth, err := Quota(new)
	f.o.OnQuota(f.book.SetQuota(truth))
	f.report(new, err, func() (err error) {
		if old != nil {
			_, err = Quota(old)
		}
		return err
	})
}

// report tells what is wrong with an object unless the same was wrong with it before.
func (f *Feed) report(object runtime.Object, err error, before func() error) {
	if err == nil {
		return
	}
	if b := before(); b != nil && b.Error() == err.Error() {
		return
	}
	f.o.OnProblem(object, err)
}
