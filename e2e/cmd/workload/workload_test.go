package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// With WORKLOAD set the test binary is the program.
func TestMain(m *testing.M) {
	if os.Getenv("WORKLOAD") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestSteps(t *testing.T) {
	const environment = `{"A":"1","B":"x=\"y\"","EMPTY":""}` + "\n"
	environ := []string{"A=0", "B=x=\"y\"", "EMPTY=", "A=1"}
	tests := []struct {
		name         string
		steps        string
		stdout       string
		stderr       string // a part of it
		code         int
		files        map[string]string // afterwards
		filesToBegin []string
	}{
		{name: "environment", steps: "env", stdout: environment},
		{name: "environment into a file", steps: "env=DIR/env.json", stdout: environment,
			files: map[string]string{"env.json": environment}},
		{name: "into a folder that is not there", steps: "env=DIR/none/env.json exit=0", code: 1,
			stderr: "none/env.json"},
		{name: "steps in order", steps: "touch=DIR/a env until=DIR/a exit=7", stdout: environment, code: 7,
			files: map[string]string{"a": ""}},
		{name: "nothing after exit", steps: "exit=0 touch=DIR/a"},
		{name: "a file that is there already", steps: "touch=DIR/a until=DIR/a", filesToBegin: []string{"a"},
			files: map[string]string{"a": ""}},
		{name: "a file that can never be there", steps: "touch=DIR/a until=DIR/a/b", code: 1, stderr: "not a directory",
			files: map[string]string{"a": ""}},
		{name: "sleep", steps: "sleep=1ms"},
		{name: "end with a code", steps: "touch=DIR/end.3 end=DIR/end exit=4", code: 3,
			files: map[string]string{"end.3": ""}},
		{name: "end with none", steps: "touch=DIR/end.x end=DIR/end", code: 1, stderr: "end.x: want a code",
			files: map[string]string{"end.x": ""}},
		{name: "end what", steps: "end", code: 2, stderr: `"end"`},
		{name: "all are read before one is taken", steps: "touch=DIR/a wait", code: 2, stderr: `"wait": want env`},
		{name: "no step", code: 2, stderr: "there is none"},
		{name: "until what", steps: "until", code: 2, stderr: `"until"`},
		{name: "touch what", steps: "touch=", code: 2, stderr: `"touch="`},
		{name: "stay has no value", steps: "stay=1s", code: 2, stderr: `"stay=1s"`},
		{name: "sleep without a unit", steps: "sleep=5", code: 2, stderr: "500ms or 20s"},
		{name: "sleep backwards", steps: "sleep=-1s", code: 2, stderr: "500ms or 20s"},
		{name: "a code that no process can have", steps: "exit=256", code: 2, stderr: "0 to 255"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range test.filesToBegin {
				if err := touch(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			steps := strings.Fields(strings.ReplaceAll(test.steps, "DIR", dir))
			if got := code(run(t.Context(), steps, environ, &stdout), &stderr); got != test.code {
				t.Errorf("code %d, want %d: %s", got, test.code, &stderr)
			}
			if diff := cmp.Diff(test.stdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if !strings.Contains(stderr.String(), test.stderr) || (test.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("stderr %q, want %q in it", &stderr, test.stderr)
			}
			want := test.files
			if want == nil {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// The waiting steps wait, and end at once when their context does.
func TestWaiting(t *testing.T) {
	for _, steps := range [][]string{{"stay"}, {"sleep=1h"}, {"until=" + filepath.Join(t.TempDir(), "never")},
		{"end=" + filepath.Join(t.TempDir(), "never")}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, steps, nil, nil) }()
			time.Sleep(59 * time.Minute) // of the bubble's own clock
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatalf("%s ended: %v", steps, <-ended)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want that it was stopped", steps, err)
			}
		})
	}
}

// SIGTERM stops it before the kubelet has to kill it, and it is not taken for complete.
func TestStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "env", "until="+file, "exit=0")
	cmd.Env = []string{"WORKLOAD=1"}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != `{"WORKLOAD":"1"}`+"\n" {
		t.Fatalf("its environment: %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("after SIGTERM: %v, want exit code 143", err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(content)
	}
	return found
}
