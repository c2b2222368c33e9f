// Package quota refuses pods that their namespace's quotas have no room for, in words that tell what to
// change: which phase of the pod makes the peak, and which containers are alive in it.
package quota

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// asking is a pod as quotas see it.
type asking struct {
	classes  phase.Pod
	names    []string         // of its containers, by position
	requests []device.Request // by position
}

// Check returns why a pod that asks for these devices, by position, exceeds a quota of its namespace
// beside what bound and assumed pods use. It books nothing: two pods may pass that have room for one,
// and Bind decides between them. So it does about pods whose charge nobody can tell.
//
// Memory that only a device can settle (a percentage, the whole card) counts here only against a limit
// of 0, which any amount exceeds.
func Check(book *ledger.Book, pod *corev1.Pod, requests []device.Request) error {
	a := asking{classes: kube.Classes(&pod.Spec), requests: requests}
	for position := range requests {
		a.names = append(a.names, kube.Container(&pod.Spec, position).Name)
	}
	charges, _, err := kube.Charges(a.classes, requests)
	if err != nil {
		return err
	}
	scope := kube.Scope(pod)
	var exceeded *ledger.QuotaError
	switch err := book.CheckQuota(pod.Namespace, string(pod.UID), scope, charges); {
	case errors.As(err, &exceeded) && exceeded.Unreadable == "":
		return errors.New(a.exceeds(exceeded))
	case err != nil && exceeded == nil:
		return err
	}
	if quota, limit := blocked(book.Namespace(pod.Namespace), scope, charges); limit != nil {
		return errors.New(a.isBlocked(pod.Namespace, quota, limit))
	}
	return nil
}

// blocked returns the first quota with a limit of 0 on memory of a family that the pod asks for. Asked
// for with a number, it has exceeded that limit before.
func blocked(n *ledger.Namespace, scope ledger.Scope, charges map[string]ledger.Charge) (quota string, limit *ledger.Limit) {
	if n == nil {
		return "", nil
	}
	for i := range n.Quotas {
		q := &n.Quotas[i]
		if !q.Counts(scope) {
			continue
		}
		for j := range q.Limits {
			l := &q.Limits[j]
			if _, asked := charges[l.Family]; asked && l.Dimension == ledger.Memory && l.Max == 0 {
				return q.Name, l
			}
		}
	}
	return "", nil
}
