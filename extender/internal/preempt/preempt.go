// Package preempt answers kube-scheduler's Preempt: which of the nodes on which it would evict pods for another are
// of any use to that pod, whose devices kube-scheduler does not see.
package preempt

import (
	"context"
	"errors"
	"fmt"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/ask"
)

// Book is what Preempt reads of the ledger.
type Book interface {
	Node(name string) *ledger.View
	CheckQuotaWithout(namespace string, uids []string, s ledger.Scope, charges map[string]ledger.Charge) error
}

// Preempt answers Preempt.
type Preempt struct {
	Book     Book
	Gate     func() map[string]string // nodes whose gate takes no more pods, and why
	Defaults ask.Defaults
}

// Preempt returns the nodes on which the pod fits, by Filter's rules, once the given victims are gone, with these
// victims. The error is of arguments that are none of kube-scheduler's; the result is then nil.
func (p *Preempt) Preempt(_ context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	pod, asked, err := p.read(args)
	if err != nil {
		return nil, err
	}
	answer := map[string]*extenderv1.MetaVictims{}
	shut := p.Gate()
	var scratch placement.Scratch
	for name, given := range asked {
		if !pod.Devices {
			answer[name] = given
			continue
		}
		if _, ok := shut[name]; ok || len(given.Pods) == 0 {
			continue
		}
		if t := p.trial(&scratch, pod, name, given); t.fits() {
			answer[name] = given
		}
	}
	return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: answer}, nil
}

// read reads the pod and, by node, the victims that kube-scheduler would evict there.
func (p *Preempt) read(args *extenderv1.ExtenderPreemptionArgs) (*ask.Pod, map[string]*extenderv1.MetaVictims, error) {
	if args.Pod == nil {
		return nil, nil, errors.New("the request has no Pod")
	}
	asked := args.NodeNameToMetaVictims
	if asked == nil {
		if args.NodeNameToVictims == nil {
			return nil, nil, errors.New("the request has neither NodeNameToMetaVictims nor NodeNameToVictims")
		}
		var err error
		if asked, err = meta(args.NodeNameToVictims); err != nil {
			return nil, nil, err
		}
	}
	for node, victims := range asked {
		if victims == nil {
			return nil, nil, fmt.Errorf("node %q: its victims are null", node)
		}
		for i, v := range victims.Pods {
			if v == nil || v.UID == "" {
				return nil, nil, fmt.Errorf("node %q: victim %d has no UID", node, i)
			}
		}
	}
	pod, err := ask.Read(args.Pod, p.Defaults)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", args.Pod.Namespace, args.Pod.Name, err)
	}
	return pod, asked, nil
}

// meta names the victims of a scheduler that was not told nodeCacheCapable.
func meta(whole map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	asked := make(map[string]*extenderv1.MetaVictims, len(whole))
	for node, victims := range whole {
		if victims == nil {
			return nil, fmt.Errorf("node %q: its victims are null", node)
		}
		m := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for i, v := range victims.Pods {
			if v == nil {
				return nil, fmt.Errorf("node %q: victim %d is null", node, i)
			}
			m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: string(v.UID)})
		}
		asked[node] = m
	}
	return asked, nil
}
