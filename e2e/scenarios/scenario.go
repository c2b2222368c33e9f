// Package scenarios has what phasegpu is for as scenarios on a real control plane: pods go through admission, a real
// kube-scheduler with the extender, and a ledger that follows their phases. The tests play them, and the demo shows
// them live.
package scenarios

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Scenario adds its own nodes and leaves nothing behind.
type Scenario struct {
	Number int
	Title  string // one sentence: what is right at the end
	Play   func(*Play)
}

// All returns the scenarios in order.
func All() []Scenario {
	return slices.Concat(
		admission(), // 1
		phases(),    // 2 to 8
		reruns(),    // 9
		accounts(),  // 10, 11, 14
		forgeries(), // 16
	)
}

// Stage is where a scenario is played: a test, or the demo. Fatalf ends the scenario.
type Stage interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
	Cleanup(func())
	// Show shows what happens, at once.
	Show(Event)
}

// Event is one thing that a stage shows.
type Event struct {
	Kind Kind
	Text string
	// Pod is the pod as its author wrote it, when Kind is Submitted.
	Pod *corev1.Pod
	// Devices is what there is and what is reserved, when Kind is Reserved.
	Devices []stack.LedgerDevice
}

// Kind is a kind of event.
type Kind string

// Kinds of events.
const (
	Given      Kind = "given"      // nodes and quotas that there are
	Submitted  Kind = "submitted"  // a pod is created
	Accountant Kind = "accountant" // what one who adds up containers would have said of it
	Happened   Kind = "happened"   // what came about and was to
	Reserved   Kind = "reserved"   // what is reserved now
)
