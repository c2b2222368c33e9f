package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The sample pods say what to try with them: all of it must work, and without a warning.
func TestSamples(t *testing.T) {
	const directory = "../../../kind/samples/"
	paths, err := filepath.Glob(directory + "*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d samples found: %v", len(paths), err)
	}
	fit := []string{"fit", "--nodes", directory + "nodes.yaml"}
	for _, path := range paths {
		switch filepath.Base(path) {
		case "nodes.yaml":
			continue
		case "quota.yaml":
		default:
			stdout, stderr, code := command(t, "", "explain", "-f", path)
			if code != exitFine || stderr != "" || !strings.Contains(stdout, "memory") {
				t.Errorf("explain -f %s: exit code %d, %s%s", path, code, stdout, stderr)
			}
			stdout, stderr, code = command(t, "", append(fit[:3:3], "-f", path)...)
			if code != exitFine || stderr != "" {
				t.Errorf("alone on the nodes, %s: exit code %d, %s%s", path, code, stdout, stderr)
			}
		}
		fit = append(fit, "-f", path)
	}
	stdout, stderr, code := command(t, "", fit...)
	if code != exitNegative || stderr != "" || !strings.Contains(stdout, "of 4 pods placed") {
		t.Errorf("all together: exit code %d, %s%s", code, stdout, stderr)
	}
}
