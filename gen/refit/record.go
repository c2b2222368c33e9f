package refit

import (
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// rewrite returns a record with the UUIDs of one container's shares replaced and every other byte as it
// was. text is one that wire.DecodeAllocation reads as was at that position.
func rewrite(text string, position int, was, now []device.Share) string {
	entries := strings.SplitAfter(text, ";")
	shares := strings.SplitAfter(entries[position], ":")
	for i := range was {
		// A share begins with its UUID; before the first there may be blanks.
		shares[i] = strings.Replace(shares[i], was[i].UUID, now[i].UUID, 1)
	}
	entries[position] = strings.Join(shares, "")
	return strings.Join(entries, "")
}
