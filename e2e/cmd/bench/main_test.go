package main

import (
	"io"
	"strings"
	"testing"
)

// What cannot be measured is said before anything is built or started.
func TestBadArguments(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--nodes=none", `--nodes: "none"`},
		{"--nodes=10,0", `--nodes: "0"`},
		{"--pods=1", "--pods above 1"},
		{"--rounds=0", "--rounds"},
		{"--steady=-1s", "--steady"},
		{"--no-such-flag", "no-such-flag"},
		{"extra", `"extra"`},
	} {
		err := run(t.Context(), strings.Fields(c.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %q", c.args, err, c.says)
		}
	}
}
