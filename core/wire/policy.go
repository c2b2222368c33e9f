package wire

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/placement"
)

// Alignment is what becomes of a container whose recorded device kubelet's Topology Manager does not
// offer. A pod without the annotation has not opted in to refit: Recorded.
type Alignment uint8

// The alignments; the first has no name on the wire.
const (
	Recorded   Alignment = iota // the recorded device stays
	BestEffort                  // moved when the refit succeeds, the recorded device stays when it does not
	Strict                      // moved, or the allocation fails
)

// String gives the alignment's name on the wire.
func (a Alignment) String() string {
	switch a {
	case BestEffort:
		return "best-effort"
	case Strict:
		return "strict"
	default:
		return ""
	}
}

// ParsePolicy reads the value of NodePolicyAnnotation or DevicePolicyAnnotation, trimmed: "binpack" or
// "spread". The error names the accepted values.
func ParsePolicy(value string) (placement.Policy, error) {
	return choose("policy", value, placement.Binpack, placement.Spread)
}

// ParseAlignment reads the value of NUMAAlignment, trimmed: "best-effort" or "strict". The error names
// the accepted values.
func ParseAlignment(value string) (Alignment, error) {
	return choose("NUMA alignment", value, BestEffort, Strict)
}

// ParseNUMABind reads the value of NUMABindAnnotation, trimmed: "true" or "false". The error names the
// accepted values.
func ParseNUMABind(value string) (bool, error) {
	v, err := choose("NUMA bind", value, boolName(true), boolName(false))
	return bool(v), err
}

// boolName is a truth value under its name on the wire.
type boolName bool

func (b boolName) String() string { return fmt.Sprint(bool(b)) }

// choose returns the option whose name the value is, trimmed, or an error that names them all.
func choose[T fmt.Stringer](what, value string, options ...T) (T, error) {
	names := make([]string, len(options))
	for i, option := range options {
		names[i] = option.String()
		if strings.TrimSpace(value) == names[i] {
			return option, nil
		}
	}
	var none T
	last := len(names) - 1
	return none, fmt.Errorf("%s %s is unknown: use %s or %s", what, quote(value), strings.Join(names[:last], ", "),
		names[last])
}
