// Package await lets tests wait for a condition. It is for the tests of gen, of the binaries and of
// e2e; nothing that runs imports it.
package await

import (
	"testing"
	"time"
)

// patience is for busy machines.
const patience = time.Minute

// Until waits until a condition holds, and ends the test if it does not within a minute. what says what is
// waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
