package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// noon is when the tests' commands run.
func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// plain is a session on a plain screen of 100 columns.
func plain(stdin string, out, err io.Writer) session {
	streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: out, ErrOut: err}
	return session{IOStreams: streams, screen: render.Screen{Width: 100}, now: noon}
}

// command runs a command line the way main does, on a plain screen of 100 columns.
func command(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, plain(stdin, &out, &err))
	return out.String(), err.String(), code
}

// check runs a command line and looks for parts of its output. Nothing is on standard error unless something must be.
func check(t *testing.T, args []string, code int, stdout, stderr string) {
	t.Helper()
	gotOut, gotErr, gotCode := command(t, "", args...)
	if gotCode != code || !strings.Contains(gotOut, stdout) || !strings.Contains(gotErr, stderr) ||
		(stderr == "") != (gotErr == "") {
		t.Errorf("%q: exit code %d (want %d)\nstdout %q (want %q)\nstderr %q (want %q)",
			args, gotCode, code, gotOut, stdout, gotErr, stderr)
	}
}

// parsed runs a command line and decodes what it prints as JSON.
func parsed[T any](t *testing.T, args ...string) (report T, stdout, stderr string, code int) {
	t.Helper()
	stdout, stderr, code = command(t, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil && stdout != "" {
		t.Fatal(err)
	}
	return report, stdout, stderr, code
}

// TestTranscripts replays testdata/*/*.txt. Each is prose behind "# ", files that begin with a line
// "-- NAME --", and commands behind "$ ". What a command prints follows it, standard error behind "! ",
// and the exit code in brackets unless it is 0.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d transcripts found: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "testdata/"), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			path, err = filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (rewrite with -update and read the difference):\n%s", diff)
			}
		})
	}
}

// replay writes the files of a transcript, runs its commands, and returns it with what they print.
func replay(t *testing.T, transcript string) string {
	var result, file strings.Builder
	name := ""        // of the file that is being read
	printing := false // the lines are what the last command printed when the transcript was written
	next := func() {
		if name != "" {
			if err := os.WriteFile(name, []byte(file.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if printing {
			result.WriteString("\n")
		}
		name, printing = "", false
		file.Reset()
	}
	for line := range strings.Lines(transcript) {
		switch {
		case strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --\n"):
			next()
			name = strings.Trim(line, "- \n")
		case strings.HasPrefix(line, "$ "):
			next()
			printing = true
			line += printed(t, strings.Fields(strings.TrimPrefix(line, "$ kubectl phasegpu")))
		case name != "":
			file.WriteString(line)
		case strings.HasPrefix(line, "# ") && printing:
			next()
		case printing:
			continue
		}
		result.WriteString(line)
	}
	return result.String()
}

// printed returns what a command prints; a last argument "< FILE" is its standard input.
func printed(t *testing.T, args []string) string {
	stdin := ""
	if n := len(args); n > 2 && args[n-2] == "<" {
		text, err := os.ReadFile(args[n-1])
		if err != nil {
			t.Fatal(err)
		}
		stdin, args = string(text), args[:n-2]
	}
	stdout, stderr, code := command(t, stdin, args...)
	for line := range strings.Lines(stderr) {
		stdout += "! " + line
	}
	if code != 0 {
		stdout += fmt.Sprintf("[exit code %d]\n", code)
	}
	return stdout
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // parts that must be there
	}{
		{"nothing", nil, 2, "", "Usage:"},
		{"help", []string{"help"}, 0, "kubectl phasegpu explain", ""},
		{"-h", []string{"-h"}, 0, "kubectl phasegpu fit", ""},
		{"help of explain", []string{"explain", "--help"}, 0, "--release policy", ""},
		{"help of fit", []string{"fit", "-h"}, 0, "--nodes file", ""},
		{"help of audit", []string{"audit", "-h"}, 0, "pods/proxy", ""},
		{"help of refit", []string{"refit", "-h"}, 0, "--dry-run", ""},
		{"help of why", []string{"why", "-h"}, 0, "--details number", ""},
		{"help of top", []string{"help", "top"}, 0, "--sort-by order", ""},
		{"help of timeline", []string{"timeline", "--help"}, 0, "in UTC", ""},
		{"completion of bash", []string{"completion", "bash"}, 0, "__start_kubectl-phasegpu", ""},
		{"version", []string{"version"}, 0, "kubectl-phasegpu ", ""},
		{"unknown command", []string{"frobnicate"}, 2, "",
			`"frobnicate" is no command: use audit, completion, explain, fit, help, refit, timeline, top, version, why`},
		{"unknown flag", []string{"explain", "--frob"}, 2, "", "unknown flag: --frob"},
		{"unknown output", []string{"explain", "-f", "-", "-o", "yaml"}, 2, "", "-o yaml is unknown: use text or json"},
		{"unknown release", []string{"explain", "-f", "-", "--release", "never"}, 2, "",
			`--release: release policy "never" is unknown: use per-init, all-inits or hold`},
		{"nothing to explain", []string{"explain"}, 2, "", "nothing to explain: give -f FILE"},
		{"files and names", []string{"explain", "-f", "x", "pod"}, 2, "", "exclude each other"},
		{"names and all", []string{"explain", "pod", "-A"}, 2, "", "exclude"},
		{"nothing to place", []string{"fit", "--nodes", "x"}, 2, "", "nothing to place: give -f FILE"},
		{"fit of a name", []string{"fit", "pod"}, 2, "", `"pod": pods to place are given with -f FILE`},
		{"unknown policy", []string{"fit", "-f", "-", "--node-policy", "pile"}, 2, "", "--node-policy:"},
		{"missing file", []string{"explain", "-f", "no-such.yaml"}, 2, "", "no-such.yaml"},
		{"no kubeconfig", []string{"explain", "pod", "--kubeconfig", "no-such"}, 2, "", "no cluster to ask"},
		{"no kubeconfig for fit", []string{"fit", "-f", "-", "--kubeconfig", "no-such"}, 2, "",
			"offline, give --nodes FILE"},
		{"standard input twice", []string{"explain", "-f", "-", "-f", "-"}, 2, "",
			"standard input (-) can be read only once"},
		{"audit of a name", []string{"audit", "pod"}, 2, "", `"pod": audit takes no arguments`},
		{"audit of objects alone", []string{"audit", "-f", "x"}, 2, "", "give the books to compare with --ledger FILE"},
		{"no kubeconfig for audit", []string{"audit", "--kubeconfig", "no-such"}, 2, "",
			"offline, give --ledger FILE and -f FILE"},
		{"standard input twice for audit", []string{"audit", "--ledger", "-", "-f", "-"}, 2, "",
			"standard input (-) can be read only once"},
		{"refit in earnest", []string{"refit", "pod", "a", "--allow", "G"}, 2, "",
			"only the device plugin of a node moves containers"},
		{"refit of nothing", []string{"refit", "--dry-run", "pod", "--allow", "G"}, 2, "",
			"a pod and one of its containers"},
		{"refit to nothing", []string{"refit", "--dry-run", "pod", "a"}, 2, "", "--allow names no device"},
		{"refit to an unknown policy", []string{"refit", "--dry-run", "pod", "a", "--allow", "G", "--device-policy",
			"pile"}, 2, "", "--device-policy:"},
		{"why of nothing", []string{"why"}, 2, "", "name one pod (see why --help)"},
		{"why of two", []string{"why", "a", "b"}, 2, "", "name one pod (see why --help)"},
		{"no kubeconfig for why", []string{"why", "a", "--kubeconfig", "no-such"}, 2, "", "offline, give -f FILE"},
		{"no kubeconfig for top", []string{"top", "--kubeconfig", "no-such"}, 2, "", "offline, give -f FILE"},
		{"timeline of nothing", []string{"timeline"}, 2, "", "name one pod (see timeline --help)"},
		{"no kubeconfig for timeline", []string{"timeline", "a", "--kubeconfig", "no-such"}, 2, "",
			"offline, give -f FILE"},
		{"no kubeconfig for refit", []string{"refit", "--dry-run", "pod", "a", "--allow", "G", "--kubeconfig",
			"no-such"}, 2, "", "offline, give -f FILE"},
		{"standard input twice over", []string{"fit", "-f", "-", "--nodes", "-"}, 2, "",
			"standard input (-) can be read only once"},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.args, c.code, c.stdout, c.stderr) })
	}
}

// An input of which nothing could be read has an error, not a result.
func TestNothingPlacedIsNoResult(t *testing.T) {
	stdout, stderr, code := command(t, "garbage: [", "fit", "-f", "-", "--nodes", "../../../kind/samples/nodes.yaml")
	if code != exitBadInput || stdout != "" || !strings.Contains(stderr, "standard input, document 1") {
		t.Errorf("exit code %d\nstdout %q\nstderr %q", code, stdout, stderr)
	}
}

// broken fails every write.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestOutputThatCannotBeWritten(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"x"}]}}`
	for _, c := range []struct {
		err    error
		stderr string
	}{
		{errors.New("disk full"), "error: output cannot be written: disk full\n"},
		{syscall.EPIPE, ""}, // the reader has seen enough and needs no message
	} {
		for _, output := range []string{"text", "json"} {
			var stderr bytes.Buffer
			code := run(t.Context(), []string{"explain", "-f", "-", "-o", output}, plain(pod, broken{c.err}, &stderr))
			if code != exitBadInput || stderr.String() != c.stderr {
				t.Errorf("%v, -o %s: exit code %d, stderr %q", c.err, output, code, stderr.String())
			}
		}
	}
}
