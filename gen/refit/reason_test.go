package refit

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/placement"
)

func TestReasonsAreClosed(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	for _, constant := range regexp.MustCompile(`(?m)^\t\w+ +Reason = "(\w+)"$`).FindAllSubmatch(source, -1) {
		declared = append(declared, string(constant[1]))
	}
	for _, f := range Reasons() {
		listed = append(listed, string(f.Reason))
		if f.Status < 400 || http.StatusText(f.Status) == "" || f.Means == "" {
			t.Errorf("%s: status %d, %q", f.Reason, f.Status, f.Means)
		}
		if got := f.Reason.Fact(); got != f {
			t.Errorf("%s: its fact is %+v", f.Reason, got)
		}
	}
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("constants and Reasons differ (-constants +list):\n%s", diff)
	}
	if got := Reason("Whatever").Fact(); got.Reason != Internal {
		t.Errorf("an unknown reason is %+v", got)
	}
}

func TestPlacementReasonsHaveNames(t *testing.T) {
	for _, r := range placement.Reasons() {
		if fromPlacement(r) == Internal {
			t.Errorf("%v has no name", r)
		}
	}
	if fromPlacement(^placement.Reason(0)) != Internal || fromPlacement(placement.Fits) != Internal {
		t.Error("a reason that placement does not give has a name")
	}
}
