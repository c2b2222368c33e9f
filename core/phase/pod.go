package phase

import (
	"fmt"
	"math"

	"github.com/phasegpu/phasegpu/core/device"
)

// Class is how long a container lives.
type Class uint8

// The three classes of container.
const (
	Init    Class = iota // alone in its turn, to completion
	Sidecar              // from its turn to the end of the pod
	App                  // from the end of the last init container to the end of the pod
)

// String gives the class's name.
func (c Class) String() string {
	switch c {
	case Init:
		return "init"
	case Sidecar:
		return "sidecar"
	default:
		return "app"
	}
}

// Pod is the classes of a pod's containers in position order: spec.initContainers, then
// spec.containers.
type Pod []Class

// Len returns the number of phases: one per init container and the steady state.
func (p Pod) Len() int {
	n := 1
	for _, c := range p {
		if c == Init {
			n++
		}
	}
	return n
}

// Steady returns the index of the last phase.
func (p Pod) Steady() int { return p.Len() - 1 }

// InitPosition returns the position of the init container that phase k is named after, or -1 for the
// steady state and for a k that is not a phase.
func (p Pod) InitPosition(k int) int {
	for i, c := range p {
		if c != Init {
			continue
		}
		if k == 0 {
			return i
		}
		k--
	}
	return -1
}

// Alive reports whether the container at a position is alive in phase k, 0 <= k < p.Len().
func (p Pod) Alive(k, position int) bool {
	turn := p.InitPosition(k)
	switch p[position] {
	case Init:
		return position == turn
	case Sidecar:
		return turn < 0 || position < turn
	default:
		return turn < 0
	}
}

// remains reports whether the container at a position is alive in any phase from index from on.
func (p Pod) remains(from, position int) bool {
	if from > p.Steady() {
		return false
	}
	turn := p.InitPosition(from)
	return p[position] != Init || turn >= 0 && position >= turn
}

// None is the progress of a pod of which no phase remains: larger than any phase index.
const None = math.MaxInt

// Fold returns the maximum, over the phases from index from on, of the sum over the containers alive
// in the phase of amount(position), each dimension on its own. With from 0 it is the peak; with from
// p.Steady() the footprint of the steady state; beyond that, as with None, zero.
//
// It is the API server's own formula for a pod's effective request,
// max( max_i(init_i + sidecars before i), apps + all sidecars ), restricted to remaining phases
// (k8s.io/component-helpers/resource, PodRequests).
//
// It is an error, device.ErrOverflow, when a sum leaves the range of an amount.
func (p Pod) Fold(from int, amount func(position int) device.Amount) (device.Amount, error) {
	if from > p.Steady() {
		return device.Amount{}, nil // no phase remains
	}
	var peak, sidecars, apps, turn device.Amount
	var err error
	k := 0
	for i, c := range p {
		switch c {
		case Init:
			if k >= from {
				turn, err = sidecars.Add(amount(i))
				peak = peak.Max(turn)
			}
			k++
		case Sidecar:
			sidecars, err = sidecars.Add(amount(i))
		case App:
			apps, err = apps.Add(amount(i))
		}
		if err != nil {
			return device.Amount{}, fmt.Errorf("container %d: %w", i, err)
		}
	}
	steady, err := apps.Add(sidecars)
	if err != nil {
		return device.Amount{}, fmt.Errorf("steady state: %w", err)
	}
	return peak.Max(steady), nil
}
