// Package admission has the rules for new pods: what the webhook refuses and warns of, and what the command says about
// a pod before it exists.
package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// SchedulerName is the scheduler of every pod with devices.
const SchedulerName = "phasegpu-scheduler"

// Reason is why a pod is refused: a closed set.
type Reason string

// The reasons. The first two are mistakes in the pod, the others are written well and not allowed.
const (
	Request    Reason = "request"    // a container's device resources
	Annotation Reason = "annotation" // a value of an annotation that users set
	NodeName   Reason = "node_name"
	Scheduler  Reason = "scheduler"
	Privileged Reason = "privileged"
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{string(Request), string(Annotation), string(NodeName), string(Scheduler), string(Privileged)}
}

// Refusal is one thing that the pod's author has to change.
type Refusal struct {
	Reason  Reason
	Message string // names the field, its value and the fix
}

// Verdict is what admission makes of a pod.
type Verdict struct {
	Requests []device.Request // by position; nil if no container requests a device or a request is invalid
	Refusals []Refusal        // most important first
	Warnings []string         // about names that are probably misspelt
}

// Review returns the verdict on a new pod. Pods of the allowed schedulers keep their schedulerName. A pod that requests
// no device is never refused.
func Review(pod *corev1.Pod, allowedSchedulers []string) Verdict {
	v := Verdict{Warnings: kube.Misspelt(pod)}
	if !kube.Asks(&pod.Spec) {
		return v
	}
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		v.refuse(Request, "%v", err)
	}
	v.Requests = requests
	v.reviewPlace(&pod.Spec, allowedSchedulers)
	if err := kube.CheckAnnotations(pod); err != nil {
		v.refuse(Annotation, "%v", err)
	}
	return v
}

// reviewPlace refuses a pod that would bypass the ledger: on a node of its own choice, by a scheduler without the
// extender, or on every card of its node.
func (v *Verdict) reviewPlace(spec *corev1.PodSpec, allowedSchedulers []string) {
	if spec.NodeName != "" {
		v.refuse(NodeName, "spec.nodeName is %q: only %s places pods with devices; leave it out and choose the node "+
			"with spec.nodeSelector or affinity", spec.NodeName, SchedulerName)
	}
	s := spec.SchedulerName
	if s != SchedulerName && !IsDefaultScheduler(s) && !slices.Contains(allowedSchedulers, s) {
		others := ""
		if len(allowedSchedulers) > 0 {
			others = " or one of " + strings.Join(allowedSchedulers, ", ")
		}
		v.refuse(Scheduler, "spec.schedulerName is %q: pods with devices are placed by %s%s; leave it out",
			s, SchedulerName, others)
	}
	for position := range len(spec.InitContainers) + len(spec.Containers) {
		c := kube.Container(spec, position)
		s := c.SecurityContext
		if s != nil && s.Privileged != nil && *s.Privileged && classify.Asks(&c.Resources) {
			v.refuse(Privileged, "container %q requests devices and is privileged, so it would see every card of its "+
				"node: set securityContext.privileged to false", c.Name)
		}
	}
}

func (v *Verdict) refuse(reason Reason, format string, args ...any) {
	v.Refusals = append(v.Refusals, Refusal{reason, fmt.Sprintf(format, args...)})
}

// IsDefaultScheduler reports whether a schedulerName stands for none: it is empty, or the name that the API server sets
// then. Such a pod gets SchedulerName.
func IsDefaultScheduler(name string) bool { return name == "" || name == corev1.DefaultSchedulerName }
