package preempt

import (
	"errors"
	"fmt"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// parse parses the pod and returns, by node, the victims that kube-scheduler would evict there.
func (p *Preempt) parse(
	args *extenderv1.ExtenderPreemptionArgs,
) (*podrequest.Request, map[string]*extenderv1.MetaVictims, error) {
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
	r, err := podrequest.Parse(args.Pod, p.Defaults)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", args.Pod.Namespace, args.Pod.Name, err)
	}
	return r, asked, nil
}

// meta names the victims that a scheduler without nodeCacheCapable sends as whole pods.
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
