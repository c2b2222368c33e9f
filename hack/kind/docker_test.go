// Package kind tests the scripts of kind/ that need no cluster.
package kind_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDockerWithoutPrivilege runs the wrapper as kind does, first in PATH as docker, before a docker that
// prints its arguments.
func TestDockerWithoutPrivilege(t *testing.T) {
	wrapper := script(t, "offline", "docker-without-privilege", "docker")
	real := t.TempDir()
	if err := os.WriteFile(filepath.Join(real, "docker"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	asked := []string{
		"--cap-add=ALL", "--cap-drop=SYS_RESOURCE", "--security-opt", "systempaths=unconfined",
		"--device-cgroup-rule", "a *:* rwm", "--device", "/dev/kmsg", "--env", "PHASEGPU_UNPRIVILEGED=1",
	}
	for _, tc := range []struct {
		name     string
		in, want []string
	}{
		{"run asks for all but the capability", []string{"run", "--name", "a node", "--privileged", "image"},
			append(append([]string{"run", "--name", "a node"}, asked...), "image")},
		{"run that asks for nothing", []string{"run", "image"}, []string{"run", "image"}},
		{"exec has what its container has", []string{"exec", "--privileged", "-i", "node", "cat", "a  b"}, []string{"exec", "-i", "node", "cat", "a  b"}},
		{"others pass", []string{"inspect", "--privileged"}, []string{"inspect", "--privileged"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that finds itself never ends
			defer cancel()
			cmd := exec.CommandContext(ctx, wrapper, tc.in...)
			// The wrapper's folder twice: it must not find itself.
			cmd.Env = append(os.Environ(), "PATH="+strings.Join([]string{filepath.Dir(wrapper), filepath.Dir(wrapper), real, os.Getenv("PATH")}, ":"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, tc.want) {
				t.Errorf("the real docker got\n%q, want\n%q", got, tc.want)
			}
		})
	}

	t.Run("no docker behind it", func(t *testing.T) {
		shell := t.TempDir() // PATH needs bash and what the wrapper runs, and no docker
		for _, program := range []string{"bash", "dirname"} {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(shell, program)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(wrapper, "run", "image")
		cmd.Env = []string{"PATH=" + filepath.Dir(wrapper) + ":" + shell}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no other docker in PATH") {
			t.Errorf("got %v and %q, want an error that says that there is no other docker in PATH", err, out)
		}
	})
}

// script returns the path of a file of kind/.
func script(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "kind"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
