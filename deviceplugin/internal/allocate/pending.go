package allocate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// EntryAnnotation of an answer names the container that it is for, as "UID/container". For pods with identical
// allocations it names several, separated by commas.
const EntryAnnotation = "phasegpu.io/entry"

// DevicesAnnotation of an answer has the UUIDs of the devices that it gives, separated by commas. Only pods that opted
// in to NUMA refit have it.
const DevicesAnnotation = "phasegpu.io/devices"

// turn is a pending pod and the container whose call comes next.
type turn struct {
	pod        *corev1.Pod
	allocation device.Allocation
	alignment  wire.Alignment
	position   int
	begun      bool // an earlier container of the pod has its ids
}

func (t turn) name() string { return t.pod.Namespace + "/" + t.pod.Name }

func (t turn) container() string { return kube.Container(&t.pod.Spec, t.position).Name }

// shares is the container's record.
func (t turn) shares() []device.Share { return t.allocation[t.position] }

// entry is the turn's part of the entry annotation.
func (t turn) entry() string { return string(t.pod.UID) + "/" + t.container() }

// describe names the pod and container.
func (t turn) describe() string {
	return fmt.Sprintf("pod %s, container %s (%d devices recorded)", t.name(), t.container(), len(t.shares()))
}

// pending reports whether kubelet may still allocate for a pod on its node.
func pending(pod *corev1.Pod) bool {
	return !kube.IsTerminal(pod) && pod.Status.StartTime == nil
}

// Awaited reports whether kubelet may still allocate devices for one of the pods.
func (a *Allocator) Awaited(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		for i := range containers(&pod) {
			if pending(&pod) && asks(&pod, i, a.Resource) > 0 {
				return true
			}
		}
		return false
	})
}

// asks returns how many ids of the resource kubelet gives to the container at a position: its limit.
func asks(pod *corev1.Pod, position int, resource string) int64 {
	amount := kube.Container(&pod.Spec, position).Resources.Limits[corev1.ResourceName(resource)]
	return amount.Value()
}

// containers is the number of positions of a pod.
func containers(pod *corev1.Pod) int { return len(pod.Spec.InitContainers) + len(pod.Spec.Containers) }

// served returns the containers in the checkpoint, as UID/container.
func served(entries []kubelet.Entry) map[string]bool {
	got := make(map[string]bool, len(entries))
	for _, e := range entries {
		got[e.PodUID+"/"+e.Container] = true
	}
	return got
}

// turns returns the turns that a call can be for: of pods with identical allocations, at the same position. An error
// names the pods that conflict.
func (a *Allocator) turns(pods []corev1.Pod, entries []kubelet.Entry) ([]turn, error) {
	got := served(entries)
	var all []turn
	for i := range pods {
		pod := &pods[i]
		if !pending(pod) {
			continue
		}
		next, err := a.next(pod, got)
		if err != nil {
			return nil, err
		}
		if next != nil {
			all = append(all, *next)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no pod with a record of its devices is waiting for %s on node %s: the call is for a "+
			"pod that "+
			"the API server does not have (static or deleted by force), or for one whose containers all have theirs",
			a.Resource, a.Node)
	}
	for _, t := range all[1:] {
		if !all[0].allocation.Equal(t.allocation) {
			return nil, fmt.Errorf("several pods with different devices are waiting for %s on node %s, and kubelet "+
				"does not say "+
				"which one it allocates for: %s", a.Resource, a.Node, describe(all))
		}
	}
	// Kubelet admits one pod after another, so one that has begun goes on before the next begins.
	if begun := slices.DeleteFunc(slices.Clone(all), func(t turn) bool { return !t.begun }); len(begun) > 0 {
		all = begun
	}
	for _, t := range all[1:] {
		if t.position != all[0].position {
			return nil, fmt.Errorf("several pods are half served with %s on node %s, and kubelet does not say which "+
				"one it "+
				"allocates for: %s", a.Resource, a.Node, describe(all))
		}
	}
	return all, nil
}

// next returns a pending pod's turn, nil if none of its containers waits for devices. An unreadable record is an error
// for other pods, too: kubelet's call may be for this one.
func (a *Allocator) next(pod *corev1.Pod, got map[string]bool) (*turn, error) {
	t := turn{pod: pod, position: -1}
	for i := range containers(pod) {
		switch {
		case asks(pod, i, a.Resource) == 0:
		case got[string(pod.UID)+"/"+kube.Container(&pod.Spec, i).Name]:
			t.begun = true
		case t.position < 0:
			t.position = i
		}
	}
	if t.position < 0 {
		return nil, nil
	}
	if !kube.Recorded(pod) {
		return nil, fmt.Errorf("pod %s requests %s but has no record of its devices: only phasegpu's scheduler may "+
			"place it "+
			"(nothing is allocated on node %s while it is pending)", t.name(), a.Resource, a.Node)
	}
	var err error
	if t.allocation, err = kube.Allocation(pod); err != nil {
		return nil, fmt.Errorf("pod %s: its record cannot be read, and nothing is allocated on node %s while it is "+
			"pending: %w",
			t.name(), a.Node, err)
	}
	if t.alignment, err = kube.Alignment(pod); err != nil {
		return nil, fmt.Errorf("pod %s: %w (nothing is allocated on node %s while it is pending)", t.name(), err,
			a.Node)
	}
	return &t, nil
}

func describe(all []turn) string {
	parts := make([]string, len(all))
	for i, t := range all {
		parts[i] = t.describe()
	}
	return strings.Join(parts, "; ")
}
