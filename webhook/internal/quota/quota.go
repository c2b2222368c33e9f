// Package quota refuses pods for which their namespace's quotas have no room. The message says which phase of the pod
// is its peak, and which containers are alive in it.
package quota

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// request is what a pod requests, as quotas count it.
type request struct {
	classes phase.Pod
	names   []string         // of its containers, by position
	devices []device.Request // by position
}

// Check returns why a pod with these requests, by position, exceeds a quota of its namespace beside what bound and
// assumed pods use. It books nothing: two pods may pass that have room for one, and Bind decides between them. Bind
// also decides when the charge of a pod cannot be read.
//
// Memory whose amount depends on the device (a percentage, the whole card) exceeds only a limit of 0 here.
func Check(book *ledger.Book, pod *corev1.Pod, devices []device.Request) error {
	r := request{classes: kube.Classes(&pod.Spec), devices: devices}
	for position := range devices {
		r.names = append(r.names, kube.Container(&pod.Spec, position).Name)
	}
	charges, _, err := kube.Charges(r.classes, devices)
	if err != nil {
		return err
	}
	scope := kube.Scope(pod)
	var exceeded *ledger.QuotaError
	switch err := book.CheckQuota(pod.Namespace, string(pod.UID), scope, charges); {
	case errors.As(err, &exceeded) && exceeded.Unreadable == "":
		return errors.New(r.exceeds(exceeded))
	case err != nil && exceeded == nil:
		return err
	}
	if quota, limit := blocked(book.Namespace(pod.Namespace), scope, charges); limit != nil {
		return errors.New(r.isBlocked(pod.Namespace, quota, limit))
	}
	return nil
}

// blocked returns the first quota with a limit of 0 on memory of a family that the pod requests. (A pod that requests a
// number has exceeded that limit before.)
func blocked(
	n *ledger.Namespace, scope ledger.Scope, charges map[string]ledger.Charge,
) (quota string, limit *ledger.Limit) {
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
