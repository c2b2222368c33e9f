package admission

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// SchedulerName is the scheduler of every pod with devices.
const SchedulerName = "phasegpu-scheduler"

// nodesGroup is the group of kubelets.
const nodesGroup = "system:nodes"

// Policy is what new pods are held to.
type Policy struct {
	// AllowSchedulers are other schedulers whose pods are admitted, with their schedulerName as it is
	// and everything else as usual: those that use phasegpu's extender.
	AllowSchedulers []string
	// Quota returns why a pod that asks for these devices, by position, exceeds its namespace's quota.
	Quota func(pod *corev1.Pod, requests []device.Request) error
	// Ready returns why the quotas are not known yet, or nil.
	Ready func() error
}

// admit returns the patch that makes a pod one of ours, or the refusal. It reads the pod and the
// books, and changes neither.
func (p *Policy) admit(pod *corev1.Pod, user authenticationv1.UserInfo) ([]operation, *refusal) {
	ops := strip(pod.Annotations)
	if !kube.Asks(&pod.Spec) || isMirror(pod, user) {
		return ops, nil
	}
	requests, refused := p.check(pod)
	if refused != nil {
		refused.message = "pod " + displayName(pod) + ": " + refused.message
		return nil, refused
	}
	if managed(pod.Spec.SchedulerName) {
		ops = append(ops, operation{"add", pointer("spec", "schedulerName"), SchedulerName})
	}
	for position, r := range requests {
		if r.Devices > 0 {
			count := classify.Family(r.Family).Count
			resources := &kube.Container(&pod.Spec, position).Resources
			ops = append(ops, addOne(count, position, len(pod.Spec.InitContainers), resources)...)
		}
	}
	return ops, nil
}

// strip returns the steps that take out the records that only phasegpu writes.
func strip(annotations map[string]string) []operation {
	var ops []operation
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if classify.Protected(key) {
			ops = append(ops, operation{Op: "remove", Path: pointer("metadata", "annotations", key)})
		}
	}
	return ops
}

// isMirror reports whether the pod shows a static pod, which kubelet runs whatever we say. Anybody may
// set the annotation, so it counts only when a kubelet creates the pod.
func isMirror(pod *corev1.Pod, user authenticationv1.UserInfo) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok && slices.Contains(user.Groups, nodesGroup)
}

// managed reports whether a pod that names this scheduler means ours: "" and the name that the API
// server sets when none is given.
func managed(scheduler string) bool {
	return scheduler == "" || scheduler == corev1.DefaultSchedulerName
}

// displayName returns the pod's namespace and name for messages; a name that the API server has still
// to make up is its prefix and a star.
func displayName(pod *corev1.Pod) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	return pod.Namespace + "/" + name
}

// check returns what each container of a pod with devices asks for, or why the pod is refused.
func (p *Policy) check(pod *corev1.Pod) ([]device.Request, *refusal) {
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		return nil, invalid(byRequest, "%v", err)
	}
	if refused := p.checkPlace(pod, requests); refused != nil {
		return nil, refused
	}
	if err := checkAnnotations(pod); err != nil {
		return nil, invalid(byAnnotation, "%v", err)
	}
	if err := p.Ready(); err != nil {
		return nil, &refusal{byStart, http.StatusServiceUnavailable, "its namespace's quotas are not known yet, try again: " + err.Error()}
	}
	if err := p.Quota(pod, requests); err != nil {
		return nil, forbidden(byQuota, "%v", err)
	}
	return requests, nil
}

// checkPlace refuses a pod that would get past the books: to a node of its own choice, by a scheduler
// that does not ask us, or onto every card of its node.
func (p *Policy) checkPlace(pod *corev1.Pod, requests []device.Request) *refusal {
	if node := pod.Spec.NodeName; node != "" {
		return forbidden(byNodeName, "spec.nodeName is %q: only %s places pods with devices; leave it out and choose the node with spec.nodeSelector or affinity",
			node, SchedulerName)
	}
	if s := pod.Spec.SchedulerName; s != SchedulerName && !managed(s) && !slices.Contains(p.AllowSchedulers, s) {
		others := ""
		if len(p.AllowSchedulers) > 0 {
			others = " or one of " + strings.Join(p.AllowSchedulers, ", ")
		}
		return forbidden(byScheduler, "spec.schedulerName is %q: pods with devices are placed by %s%s; leave it out", s, SchedulerName, others)
	}
	for position, r := range requests {
		c := kube.Container(&pod.Spec, position)
		if s := c.SecurityContext; r.Devices > 0 && s != nil && s.Privileged != nil && *s.Privileged {
			return forbidden(byPrivilege, "container %q asks for devices and is privileged, so it would see every card of its node: set securityContext.privileged to false",
				c.Name)
		}
	}
	return nil
}

// checkAnnotations refuses values that placement, release or refit would not understand.
func checkAnnotations(pod *corev1.Pod) error {
	if _, err := kube.PlacementPod(pod, placement.Binpack, placement.Binpack); err != nil {
		return err
	}
	if _, err := kube.Release(pod, phase.PerInit); err != nil {
		return err
	}
	_, err := kube.Alignment(pod)
	return err
}
