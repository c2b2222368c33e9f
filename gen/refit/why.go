package refit

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
)

// maxTold bounds the devices of which a message gives numbers.
const maxTold = 4

// why says in one line why a container cannot move: placement's sentence and, for the allowed devices on
// the node, what others hold and what the pod could use there at most.
func why(v *ledger.View, p *placement.Pod, a device.Allocation, first int, r *Request, reason placement.Reason) string {
	var text strings.Builder
	fmt.Fprintf(&text, "container %s of pod %s/%s cannot leave %s for the allowed devices of node %s: %v",
		r.Container.Name, r.Pod.Namespace, r.Pod.Name, uuids(a[r.Container.Position]), r.Node, reason)
	for i, c := range weigh(v, p.Classes, a, first, r) {
		if i == maxTold {
			break
		}
		fmt.Fprintf(&text, "; %s has %v, others hold %v", c.UUID, c.Capacity, c.Others)
		if !c.Has {
			fmt.Fprintf(&text, ", with the container there this pod would hold %v at its peak", c.Peak)
		}
	}
	return text.String()
}

func uuids(shares []device.Share) string {
	names := make([]string, len(shares))
	for i, s := range shares {
		names[i] = s.UUID
	}
	return strings.Join(names, ",")
}
