package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/placement"
)

// Every sentence in which placement refuses a node to a pod that waits is explained, word for word.
func TestReasons(t *testing.T) {
	ofRecords := []placement.Reason{placement.Mismatch, placement.PhaseOver, placement.UnknownDevice,
		placement.OtherFamily, placement.NeedsMore}
	page := string(read(t, "docs/operations.md"))
	for _, r := range placement.Reasons() {
		if !slices.Contains(ofRecords, r) && !strings.Contains(page, "| "+r.String()) &&
			!strings.Contains(page, ", "+r.String()) {
			t.Errorf("docs/operations.md does not explain %q", r)
		}
	}
}
