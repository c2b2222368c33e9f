package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
)

// The README says what it is and for whom on its first screen, and how many scenarios the demo plays.
func TestReadme(t *testing.T) {
	text := string(read(t, "README.md"))
	if want := fmt.Sprintf("playing %d scenarios live", len(scenarios.All())); !strings.Contains(text, want) {
		t.Errorf("README.md does not say %q", want)
	}
	introduction, _, _ := strings.Cut(strings.TrimPrefix(text, "# phasegpu\n\n"), "\n\nA pod, as")
	if lines := strings.Count(introduction, "\n") + 1; lines > 10 {
		t.Errorf("README.md takes %d lines to say what phasegpu is and for whom", lines)
	}
}
