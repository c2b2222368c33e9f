package scenarios_test

import (
	"fmt"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestScenarios plays all scenarios on one stack. Select some by number: -run 'TestScenarios/^7_'.
func TestScenarios(t *testing.T) {
	cluster := stack.StartT(t, stack.Options{})
	for _, s := range scenarios.All() {
		t.Run(fmt.Sprintf("%d %s", s.Number, s.Title), func(t *testing.T) {
			scenarios.Perform(stage{t}, cluster, s)
		})
	}
}

// stage is a test's.
type stage struct{ *testing.T }

func (s stage) Show(e scenarios.Event) {
	s.Helper()
	s.Logf("%-10s %s", e.Kind, e.Text)
}
