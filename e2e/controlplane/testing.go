package controlplane

import (
	"io"
	"testing"
)

// StartT is Start for a test: it fails the test on an error, stops the control plane when the test ends,
// and shows the ends of the logs when it failed. Progress of a build goes to stderr, which "go test" shows
// at once with -v or for a single package.
func StartT(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.WriteLogs(t.Output())
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// WriteLogs writes the end of each program's log.
func (c *ControlPlane) WriteLogs(w io.Writer) {
	for _, p := range c.processes() {
		if tail := p.Tail(); tail != "" {
			io.WriteString(w, "--- end of the log of "+p.Name+"\n"+tail+"\n")
		}
	}
}
