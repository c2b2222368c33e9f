package quota

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
)

// exceeds says by what numbers the pod exceeds a quota, and where its peak comes from.
func (a *asking) exceeds(e *ledger.QuotaError) string {
	if e.Limit.Unreadable != "" {
		return isUnreadable(e.Namespace, e.Quota, &e.Limit)
	}
	unit := " MiB"
	if e.Limit.Dimension == ledger.Cores {
		unit = "%"
	}
	k := a.peak(e.Limit)
	where := "steady state"
	if init := a.classes.InitPosition(k); init >= 0 {
		where = fmt.Sprintf("phase of init container %q", a.names[init])
	}
	var alive []string
	for position, r := range a.requests {
		if r.Family == e.Limit.Family && a.classes.Alive(k, position) {
			alive = append(alive, a.part(e.Limit.Dimension, position))
		}
	}
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s allows %d%s, %d%s are used, and the pod would add its peak of %d%s, in its %s (%s): ask for less there, or have the quota raised",
		e.Quota, e.Namespace, e.Limit.Resource, e.Limit.Max, unit, e.Used, unit, e.Asked, unit, where, strings.Join(alive, ", "))
}

// isBlocked says that a quota allows nothing of what the pod asks for without a number.
func (a *asking) isBlocked(namespace, quota string, l *ledger.Limit) string {
	if l.Unreadable != "" {
		return isUnreadable(namespace, quota, l)
	}
	var asks []string
	for position, r := range a.requests {
		if r.Family == l.Family && !r.MemoryKnown() {
			asks = append(asks, a.part(l.Dimension, position))
		}
	}
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s allows 0 MiB, and the pod asks for some (%s): ask for no such device, or have the quota raised",
		quota, namespace, l.Resource, strings.Join(asks, ", "))
}

// isUnreadable says that a quota's line cannot be read, which the pod's author cannot mend.
func isUnreadable(namespace, quota string, l *ledger.Limit) string {
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s cannot be read and allows nothing until it is mended: %s",
		quota, namespace, l.Resource, l.Unreadable)
}

// peak returns the first phase in which the pod uses most of what a limit counts. Its sum is in the
// charge that exceeds the limit, so it cannot overflow.
func (a *asking) peak(l ledger.Limit) (k int) {
	most := int64(-1)
	for phase := range a.classes.Len() {
		var total int64
		for position, r := range a.requests {
			if r.Family != l.Family || !a.classes.Alive(phase, position) {
				continue
			}
			amount := r.MemoryMiB
			if l.Dimension == ledger.Cores {
				amount = r.Cores
			}
			total += amount * int64(r.Devices)
		}
		if total > most {
			k, most = phase, total
		}
	}
	return k
}

// part says what one container adds to its phases: `app container "train" 2 × 2048 MiB`.
func (a *asking) part(d ledger.Dimension, position int) string {
	r := a.requests[position]
	return fmt.Sprintf("%v container %q %s", a.classes[position], a.names[position], amount(d, r))
}

func amount(d ledger.Dimension, r device.Request) string {
	each := ""
	if r.Devices > 1 {
		each = fmt.Sprintf("%d × ", r.Devices)
	}
	switch {
	case d == ledger.Cores:
		return fmt.Sprintf("%s%d%%", each, r.Cores)
	case r.MemoryPercent > 0:
		return fmt.Sprintf("%s%d%% of a card's memory", each, r.MemoryPercent)
	case !r.MemoryKnown():
		return each + "a whole card's memory"
	default:
		return fmt.Sprintf("%s%d MiB", each, r.MemoryMiB)
	}
}
