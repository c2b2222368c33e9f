package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
)

// life is what a status says of a pod. Times are versions of the server.
type life struct {
	started, ended bool
	ready          uint64 // when the sandbox became ready, 0 while there is none
	inits          []run  // in declaration order, without sidecars
	app            run
}

// run is one run of a container: none when from is 0, not over while to is 0.
type run struct{ from, to uint64 }

func (r run) running() bool { return r.from > 0 && r.to == 0 }

// with returns the life with one init's run replaced.
func (l life) with(init int, r run) life {
	l.inits = slices.Clone(l.inits)
	l.inits[init] = r
	return l
}

// over returns how many phases are over; all, the steady state included, when the pod has ended.
func (o object) over() int {
	l, inits := o.life, len(o.life.inits)
	switch {
	case l.ended:
		return inits + 1
	case o.pod.Annotations[wire.ReleaseAnnotation] == "hold":
		return 0
	}
	since := l.ready
	if o.pod.DeletionTimestamp != nil {
		since = 0 // it starts no new cycle
	} else if l.ready == 0 {
		return 0
	}
	if l.app.running() && l.app.from >= since {
		return inits
	}
	var previous uint64
	for i, r := range l.inits {
		if r.to == 0 || r.to < since || r.from < previous {
			return i
		}
		previous = r.to
	}
	return inits
}

// status returns a copy of a pod whose status says what kubelet knows.
func status(pod *corev1.Pod, l life) *corev1.Pod {
	p := *pod
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
	if l.started {
		at := instant(1)
		p.Status.StartTime = &at
		ready := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
		if l.ready > 0 {
			ready.Status, ready.LastTransitionTime = corev1.ConditionTrue, instant(l.ready)
		}
		p.Status.Conditions = []corev1.PodCondition{ready}
	}
	switch {
	case l.ended:
		p.Status.Phase = corev1.PodFailed
	case l.app.from > 0:
		p.Status.Phase = corev1.PodRunning
	}
	next := 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil {
			continue // nothing depends on a sidecar's state
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, l.inits[next].status(c.Name))
		next++
	}
	for i := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, l.app.status(p.Spec.Containers[i].Name))
	}
	return &p
}

func (r run) status(name string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name}
	switch {
	case r.running():
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: instant(r.from)}
	case r.to > 0:
		s.State.Terminated = &corev1.ContainerStateTerminated{StartedAt: instant(r.from), FinishedAt: instant(r.to)}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{}
	}
	return s
}
