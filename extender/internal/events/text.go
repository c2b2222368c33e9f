package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// maxText bounds an event's note: the API server refuses notes of more than 1024 bytes.
const maxText = 900

// peaks says what a pod can use of each device at its peak and in steady state.
func peaks(p phase.Pod, a device.Allocation) string {
	peak, err := p.Reserved(a, 0)
	steady, steadyErr := p.Reserved(a, p.Steady())
	if err != nil || steadyErr != nil {
		return "its devices cannot be added up" // placement has added them up before
	}
	var all []string
	for _, h := range peak.Devices {
		text := "GPU " + h.UUID + " "
		if at := of(steady, h); at == h.Amount {
			text += amount(at)
		} else {
			text += fmt.Sprintf("%s at the peak, %s in steady state", amount(h.Amount), amount(at))
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// difference says what a pod reserves of each device now and what it reserved when the phases from one on remained,
// where the two differ.
func difference(e *ledger.Entry, from int) string {
	before, err := e.Classes.Reserved(e.Allocation, from)
	if err != nil {
		return "what it held cannot be added up"
	}
	var all []string
	more := before // of both, the one with all devices
	if len(e.Reserved.Devices) > len(before.Devices) {
		more = e.Reserved
	}
	for _, h := range more.Devices {
		if was, is := of(before, h), of(e.Reserved, h); was != is {
			all = append(all, fmt.Sprintf("GPU %s %s, was %s", h.UUID, amount(is), amount(was)))
		}
	}
	if len(all) == 0 {
		return "its namespace is charged for fewer devices at once" // each is still held, one after the other
	}
	return strings.Join(all, "; ")
}

// of is what a reservation holds of a device.
func of(r phase.Reservation, h phase.Holding) device.Amount {
	i := slices.IndexFunc(r.Devices, func(o phase.Holding) bool { return o.UUID == h.UUID && o.Family == h.Family })
	if i < 0 {
		return device.Amount{}
	}
	return r.Devices[i].Amount
}

// amount is memory and compute; slots mean nothing to a pod's owner.
func amount(a device.Amount) string {
	switch {
	case a.IsZero():
		return "nothing"
	case a.Cores == 0:
		return fmt.Sprintf("%d MiB", a.MemoryMiB)
	}
	return fmt.Sprintf("%d MiB and %d%% cores", a.MemoryMiB, a.Cores)
}

// cut shortens a text that is too long for an event.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
