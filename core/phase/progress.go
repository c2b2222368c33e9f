package phase

import (
	"fmt"
	"strings"
	"time"
)

// Release is the policy by which a pod gives back what its completed phases needed.
type Release uint8

// The release policies. All give everything back at a terminal phase.
const (
	PerInit  Release = iota // drops each completed phase at once
	AllInits                // keeps the peak until every init container is complete
	Hold                    // keeps the peak to the end
)

// ParseRelease reads the name of a policy, trimmed; the error names the accepted ones.
func ParseRelease(name string) (Release, error) {
	for _, r := range []Release{PerInit, AllInits, Hold} {
		if strings.TrimSpace(name) == r.String() {
			return r, nil
		}
	}
	return PerInit, fmt.Errorf("release policy %.64q is unknown: use %v, %v or %v", name, PerInit, AllInits, Hold)
}

// String gives the policy's name on the wire.
func (r Release) String() string {
	switch r {
	case AllInits:
		return "all-inits"
	case Hold:
		return "hold"
	default:
		return "per-init"
	}
}

// State is what a pod's status says of one container. The zero State is a container that waits or has
// no status. Times that the status leaves out are zero.
type State struct {
	Running    bool
	Terminated bool
	ExitCode   int32     // of Terminated
	StartedAt  time.Time // of Running or Terminated
	FinishedAt time.Time // of Terminated
}

// Sandbox is what a pod's status says of its sandbox.
type Sandbox uint8

// The states of condition PodReadyToStartContainers.
const (
	SandboxUnknown Sandbox = iota // no such condition (old kubelets)
	SandboxNotReady
	SandboxReady
)

// Status is what a pod's status and metadata say of its progress.
type Status struct {
	Terminal       bool // status.phase Succeeded or Failed
	Deleting       bool // the pod has a deletionTimestamp
	Restarting     bool // condition AllContainersRestarting is True
	Sandbox        Sandbox
	SandboxReadyAt time.Time                // lastTransitionTime of SandboxReady; zero when not given
	State          func(position int) State // by container position
}

// Progress is where a pod stands in its sequence of phases.
type Progress struct {
	// Inits is the number of init containers complete in this cycle, whatever the pod's phase says:
	// all of them when an app container of this sandbox is running.
	Inits int
	// Terminal is set when the pod has ended: no phase remains.
	Terminal bool
}

// Progress reads the current phase from a status. First rule that applies:
//
//  1. A terminal pod has no phases left.
//  2. Unless the pod is being deleted (it starts no new cycle): while all containers are restarting,
//     or there is no sandbox, every phase remains.
//  3. An app container running, started no earlier than the sandbox became ready, is the steady
//     state. Kubelet goes on showing the app of a dead sandbox as running for seconds.
//  4. Otherwise init containers are complete, in declaration order, as long as each has exited 0 with
//     both times present, finished no earlier than the sandbox became ready and started no earlier
//     than the previous one finished. A record of an earlier cycle fails that comparison.
func (p Pod) Progress(s Status) Progress {
	progress := Progress{Terminal: s.Terminal}
	var since time.Time // zero: nothing is known about the sandbox
	if !s.Deleting {
		if s.Restarting || s.Sandbox == SandboxNotReady {
			return progress
		}
		if s.Sandbox == SandboxReady {
			since = s.SandboxReadyAt
		}
	}
	for i, c := range p {
		if c != App {
			continue
		}
		// A missing start time is before any sandbox that is known.
		if state := s.State(i); state.Running && !state.StartedAt.Before(since) {
			progress.Inits = p.Steady()
			return progress
		}
	}
	var previous time.Time
	for i, c := range p {
		if c != Init {
			continue
		}
		state := s.State(i)
		if !state.Terminated || state.ExitCode != 0 || state.StartedAt.IsZero() || state.FinishedAt.IsZero() ||
			state.FinishedAt.Before(since) || state.StartedAt.Before(previous) {
			return progress
		}
		previous = state.FinishedAt
		progress.Inits++
	}
	return progress
}

// First returns the index of the first phase of p that remains under a release policy, or None. The
// phases that remain are always that one and all after it.
func (p Pod) First(progress Progress, release Release) int {
	switch {
	case progress.Terminal:
		return None
	case release == PerInit:
		return progress.Inits
	case release == AllInits && progress.Inits == p.Steady():
		return progress.Inits
	default:
		return 0
	}
}
