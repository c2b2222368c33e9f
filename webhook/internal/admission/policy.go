package admission

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	rules "github.com/phasegpu/phasegpu/gen/admission"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/webhook/internal/quota"
)

// nodesGroup is the group of kubelets.
const nodesGroup = "system:nodes"

// Policy is what new pods are held to.
type Policy struct {
	// AllowSchedulers are other schedulers that use phasegpu's extender: their pods keep their schedulerName.
	AllowSchedulers []string
	Book            *ledger.Book // has the quotas and what is used of them
	Feed            interface{ Synced() bool }
}

// Ready returns an error until the quotas are known.
func (p *Policy) Ready() error {
	if !p.Feed.Synced() {
		return errors.New("the first list of pods and ResourceQuotas is not complete")
	}
	return nil
}

// admit returns the patch with which a pod is admitted, or the refusal, and warnings for the user in either case.
func (p *Policy) admit(pod *corev1.Pod, user authenticationv1.UserInfo) ([]operation, []string, *refusal) {
	ops := strip(pod.Annotations)
	verdict := rules.Review(pod, p.AllowSchedulers)
	if !kube.Asks(&pod.Spec) || isMirror(pod, user) {
		return ops, verdict.Warnings, nil
	}
	if refused := p.check(pod, &verdict); refused != nil {
		refused.message = "pod " + displayName(pod) + ": " + refused.message
		return nil, verdict.Warnings, refused
	}
	if rules.IsDefaultScheduler(pod.Spec.SchedulerName) {
		ops = append(ops, operation{"add", pointer("spec", "schedulerName"), rules.SchedulerName})
	}
	return append(ops, setCounts(&pod.Spec, verdict.Requests)...), verdict.Warnings, nil
}

// strip returns the operations that remove the records that only phasegpu writes.
func strip(annotations map[string]string) []operation {
	var ops []operation
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if classify.Protected(key) {
			ops = append(ops, operation{Op: "remove", Path: pointer("metadata", "annotations", key)})
		}
	}
	return ops
}

// setCounts returns the operations that give one device to each container that requests devices without a count.
func setCounts(spec *corev1.PodSpec, requests []device.Request) []operation {
	var ops []operation
	for position, r := range requests {
		if r.Devices > 0 {
			ops = append(ops, addOne(spec, position, classify.Family(r.Family).Count)...)
		}
	}
	return ops
}

// isMirror reports whether the pod shows a static pod, which kubelet runs anyway. Any user may set the annotation, so
// it counts only when a kubelet creates the pod.
func isMirror(pod *corev1.Pod, user authenticationv1.UserInfo) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok && slices.Contains(user.Groups, nodesGroup)
}

// displayName returns the pod's namespace and name for messages; a name that the API server has yet to generate is its
// prefix and a star.
func displayName(pod *corev1.Pod) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	return pod.Namespace + "/" + name
}

// check returns why the pod is refused: by the rules, or because its namespace's quotas have no room.
func (p *Policy) check(pod *corev1.Pod, verdict *rules.Verdict) *refusal {
	if len(verdict.Refusals) > 0 {
		first := verdict.Refusals[0]
		code := int32(http.StatusForbidden)
		if first.Reason == rules.Request || first.Reason == rules.Annotation {
			code = http.StatusUnprocessableEntity
		}
		return &refusal{class(first.Reason), code, first.Message}
	}
	if err := p.Ready(); err != nil {
		message := "its namespace's quotas are not known yet, try again: " + err.Error()
		return &refusal{byStart, http.StatusServiceUnavailable, message}
	}
	if err := quota.Check(p.Book, pod, verdict.Requests); err != nil {
		return &refusal{byQuota, http.StatusForbidden, err.Error()}
	}
	return nil
}
