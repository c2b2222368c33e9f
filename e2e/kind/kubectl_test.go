package kind_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kind/kubectl runs in the control plane, which has no files of this machine: it gets them on standard input.
func TestKubectlSendsFiles(t *testing.T) {
	script, err := filepath.Abs("../../kind/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(bin, "docker"):  "#!/bin/sh\nshift 6\necho \"args: $*\"\ngrep -v '^$' || true\n",
		filepath.Join(dir, "a.yaml"):  "kind: A\n",
		filepath.Join(dir, "b.json"):  `{"kind": "B"}`,
		filepath.Join(dir, "note.md"): "not for kubectl\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const both = "---\n---\nkind: A\n---\n{\"kind\": \"B\"}\n"
	for _, c := range []struct{ args, stdin, want string }{
		{"apply -f a.yaml", "", "args: apply -f -\n---\nkind: A\n"},
		{"apply -n x --filename=a.yaml -fb.json", "", "args: apply -n x -f -\n---\nkind: A\n---\n{\"kind\": \"B\"}\n"},
		{"delete -f .", "", "args: delete -f -\n" + both},
		{"create -f -", "kind: C\n", "args: create -f -\nkind: C\n"},
		{"logs -f pod", "", "args: logs -f pod\n"},
		{"exec pod -- tool -f a.yaml", "", "args: exec pod -- tool -f a.yaml\n"},
		{"apply -f none.yaml", "", `kind/kubectl: the path "none.yaml" does not exist or cannot be read` + "\n"},
	} {
		cmd := exec.CommandContext(t.Context(), script, strings.Fields(c.args)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.stdin)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		got, err := cmd.CombinedOutput()
		if string(got) != c.want || (err != nil) != strings.Contains(c.want, "does not exist") {
			t.Errorf("kind/kubectl %s: %v\ngot  %q\nwant %q", c.args, err, got, c.want)
		}
	}
}
