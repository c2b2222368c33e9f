package stack

import "testing"

// StartT is Start for a test: it fails the test on an error, stops the stack when the test ends, and shows
// the ends of the logs when it failed. That pods overlapped at a node's gate fails the test, too.
func StartT(t testing.TB, o Options) *Stack {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, overlap := range s.Sim.Overlaps() {
			t.Errorf("two pods with different allocations were between bound and reported: %+v", overlap)
		}
		if t.Failed() {
			s.WriteLogs(t.Output())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
