package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// reducePod returns a new pod with what this package reads of the given one.
func reducePod(pod *corev1.Pod) *corev1.Pod {
	r := &corev1.Pod{
		ObjectMeta: key(&pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:              pod.Spec.NodeName,
			SchedulerName:         pod.Spec.SchedulerName,
			InitContainers:        reduceContainers(pod.Spec.InitContainers),
			Containers:            reduceContainers(pod.Spec.Containers),
			ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
			PriorityClassName:     pod.Spec.PriorityClassName,
			Priority:              pod.Spec.Priority,
		},
		Status: corev1.PodStatus{
			Phase:                 pod.Status.Phase,
			StartTime:             pod.Status.StartTime,
			InitContainerStatuses: reduceStatuses(pod.Status.InitContainerStatuses),
			ContainerStatuses:     reduceStatuses(pod.Status.ContainerStatuses),
			QOSClass:              pod.Status.QOSClass,
		},
	}
	r.CreationTimestamp = pod.CreationTimestamp
	r.DeletionTimestamp = pod.DeletionTimestamp
	r.Annotations = kept(pod.Annotations, ours)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == allContainersRestarting || c.Type == corev1.PodReadyToStartContainers {
			r.Status.Conditions = append(r.Status.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	if r.Status.QOSClass == "" { // the resources that determine it are dropped
		r.Status.QOSClass = corev1.PodQOSBurstable
		if bestEffort(pod) {
			r.Status.QOSClass = corev1.PodQOSBestEffort
		}
	}
	if crossNamespaceAffinity(pod.Spec.Affinity) {
		r.Spec.Affinity = pod.Spec.Affinity
	}
	return r
}

func reduceContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	reduced := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		reduced[i] = corev1.Container{
			Name: c.Name,
			Resources: corev1.ResourceRequirements{
				Limits:   kept(c.Resources.Limits, oursResource),
				Requests: kept(c.Resources.Requests, oursResource),
			},
			RestartPolicy: c.RestartPolicy,
		}
	}
	return reduced
}

func oursResource(name corev1.ResourceName) bool {
	_, kind := classify.Resource(name)
	return kind != families.Other
}

func reduceStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(statuses) == 0 {
		return nil
	}
	reduced := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		reduced[i] = corev1.ContainerStatus{Name: s.Name}
		state := &reduced[i].State
		if s.State.Waiting != nil {
			state.Waiting = &corev1.ContainerStateWaiting{}
		}
		if r := s.State.Running; r != nil {
			state.Running = &corev1.ContainerStateRunning{StartedAt: r.StartedAt}
		}
		if t := s.State.Terminated; t != nil {
			state.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: t.ExitCode, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
			}
		}
	}
	return reduced
}

// reduceNode returns a new node with what this package reads of the given one.
func reduceNode(node *corev1.Node) *corev1.Node {
	inventories := map[string]bool{wire.CordonAnnotation: true}
	for _, f := range classify.Families() {
		inventories[f.NodeAnnotation] = true
	}
	r := &corev1.Node{
		ObjectMeta: key(&node.ObjectMeta),
		Status: corev1.NodeStatus{
			Capacity:    kept(node.Status.Capacity, oursResource),
			Allocatable: kept(node.Status.Allocatable, oursResource),
		},
	}
	r.Annotations = kept(node.Annotations, func(annotation string) bool { return inventories[annotation] })
	return r
}
