package quota

import (
	"fmt"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
)

// exceeds says by what numbers the pod exceeds a quota, and which phase is its peak.
func (r *request) exceeds(e *ledger.QuotaError) string {
	if e.Limit.Unreadable != "" {
		return isUnreadable(e.Namespace, e.Quota, &e.Limit)
	}
	unit := " MiB"
	if e.Limit.Dimension == ledger.Cores {
		unit = "%"
	}
	k := r.peak(e.Limit)
	where := "steady state"
	if init := r.classes.InitPosition(k); init >= 0 {
		where = fmt.Sprintf("phase of init container %q", r.names[init])
	}
	alive := r.containers(e.Limit, func(position int) bool { return r.classes.Alive(k, position) })
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s allows %d%s, %d%s are used, and the pod would add its "+
		"peak of %d%s, in its %s (%s): ask for less there, or have the quota raised",
		e.Quota, e.Namespace, e.Limit.Resource, e.Limit.Max, unit, e.Used, unit, e.Asked, unit, where, alive)
}

// isBlocked says that a quota allows nothing of what the pod requests without a number.
func (r *request) isBlocked(namespace, quota string, l *ledger.Limit) string {
	if l.Unreadable != "" {
		return isUnreadable(namespace, quota, l)
	}
	asks := r.containers(*l, func(position int) bool { return !r.devices[position].MemoryKnown() })
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s allows 0 MiB, and the pod asks for some (%s): ask for "+
		"no such device, or have the quota raised", quota, namespace, l.Resource, asks)
}

// isUnreadable says that a line of a quota cannot be read, which the pod's author cannot fix.
func isUnreadable(namespace, quota string, l *ledger.Limit) string {
	return fmt.Sprintf("ResourceQuota %q of namespace %q: %s cannot be read and allows nothing until it is mended: %s",
		quota, namespace, l.Resource, l.Unreadable)
}

// peak returns the first phase in which the pod uses most of what a limit counts. Its sum is the charge that exceeds
// the limit, so it cannot overflow.
func (r *request) peak(l ledger.Limit) (k int) {
	most := int64(-1)
	for phase := range r.classes.Len() {
		var total int64
		for position, d := range r.devices {
			if d.Family != l.Family || !r.classes.Alive(phase, position) {
				continue
			}
			amount := d.MemoryMiB
			if l.Dimension == ledger.Cores {
				amount = d.Cores
			}
			total += amount * int64(d.Devices)
		}
		if total > most {
			k, most = phase, total
		}
	}
	return k
}

// containers lists what the selected containers request of what a limit counts: `app container "train" 2 × 2048 MiB`.
func (r *request) containers(l ledger.Limit, selects func(position int) bool) string {
	var list []string
	for position, d := range r.devices {
		if d.Family == l.Family && selects(position) {
			requested := amount(l.Dimension, d)
			list = append(list, fmt.Sprintf("%v container %q %s", r.classes[position], r.names[position], requested))
		}
	}
	return strings.Join(list, ", ")
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
