package timeline

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// reruns lists the containers that have run before.
func (t *facts) reruns() []Rerun {
	reruns := []Rerun{}
	for position, class := range t.classes {
		name := kube.Container(&t.pod.Spec, position).Name
		s := t.reported(name)
		if s == nil {
			continue
		}
		r := Rerun{Container: name, Class: class.String(), Restarts: s.RestartCount}
		if ended := s.LastTerminationState.Terminated; ended != nil {
			r.LastExit, r.LastEnd = &ended.ExitCode, moment(ended.FinishedAt.Time)
		}
		r.Earlier = class == phase.Init && !t.progress.Terminal && t.initIndex(position) >= t.progress.Inits &&
			s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		if r.Restarts > 0 || r.Earlier {
			reruns = append(reruns, r)
		}
	}
	return reruns
}

// initIndex is the index of an init container's phase.
func (t *facts) initIndex(position int) int {
	k := 0
	for _, c := range t.classes[:position] {
		if c == phase.Init {
			k++
		}
	}
	return k
}

func (t *facts) reported(name string) *corev1.ContainerStatus {
	status := &t.pod.Status
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// notes says what the table does not show.
func (t *facts) notes(r *Report) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case t.pod.Spec.NodeName == "" && !r.Ended:
		note("it has no node yet: kubectl phasegpu why %s -n %s tells why", t.pod.Name, t.pod.Namespace)
	case kube.Asks(&t.pod.Spec) && t.allocation.IsEmpty() && !r.Ended:
		note("no record tells which devices it has: phasegpu did not place it and charges it nothing")
	case kube.InGate(t.pod):
		note("kubelet has not reported on it yet")
	}
	switch {
	case r.Ended || t.pod.Spec.NodeName == "":
	case t.status.Restarting && !t.status.Deleting:
		note("all of its containers are restarting: every phase is to come again, and all of it is reserved again")
	case t.status.Sandbox == phase.SandboxNotReady && !t.status.Deleting && r.Started != nil:
		note("it has no sandbox: when it gets one its init containers run again, and all of it is reserved again")
	}
	if r.SandboxReady != nil && t.ranBefore(*r.SandboxReady) {
		note("its sandbox was made anew, ready at %s: init containers run again from the first, "+
			"and what they need has been reserved again", clock(*r.SandboxReady))
	}
	if t.status.Deleting && !r.Ended {
		note("it is being deleted, and stays charged until it is gone")
	}
	if t.release != phase.PerInit && t.classes.Steady() > 0 {
		end := "all init containers have ended"
		if t.release == phase.Hold {
			end = "it ends"
		}
		note("its release policy is %v: it keeps its peak until %s", t.release, end)
	}
	return notes
}

// ranBefore reports whether a container ended before a moment: in a sandbox that is no more.
func (t *facts) ranBefore(sandbox time.Time) bool {
	for position := range t.classes {
		s := t.reported(kube.Container(&t.pod.Spec, position).Name)
		if s == nil {
			continue
		}
		for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
			ended := state.Terminated
			if ended != nil && !ended.FinishedAt.IsZero() && ended.FinishedAt.Time.Before(sandbox) {
				return true
			}
		}
	}
	return false
}
