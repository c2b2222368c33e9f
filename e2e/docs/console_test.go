package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/controlplane/build"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// What a console block shows is what its commands print. An ellipsis stands for what differs from time to time.
// Rewrite the pages with: go test ./e2e/docs -run Console -update
func TestConsole(t *testing.T) {
	kubectl, err := build.Programs(t.Context(), os.Stderr, "kubectl")
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(kubectl[0], filepath.Join(bin, "kubectl")))
	_, plugin, err := stack.BuildInTree(t.Context())
	must(t, err)
	must(t, os.Symlink(plugin, filepath.Join(bin, filepath.Base(plugin))))
	shown := 0
	for _, page := range pages(t) {
		text := string(read(t, page))
		for _, b := range blocksOf(t, page) {
			if b.language != "console" {
				continue
			}
			shown++
			t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
				got := session(t, bin, b.text)
				if !like(b.text).MatchString(got) {
					if !*update {
						t.Errorf("%s:%d: got\n%s", b.page, b.line, got)
					}
					text = strings.Replace(text, "```console\n"+b.text, "```console\n"+got, 1)
				}
			})
		}
		if *update && text != string(read(t, page)) {
			//nolint:gosec // a page
			must(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), []byte(text), 0o644))
		}
	}
	if shown == 0 {
		t.Error("no page shows anything")
	}
}

// session plays the commands of a block, lines that begin with "$ ", and returns what a console would show.
func session(t *testing.T, bin, block string) string {
	t.Helper()
	var out strings.Builder
	for _, line := range strings.Split(block, "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", command)
		cmd.Dir = root
		cmd.Env = append(slices.Clone(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "COLUMNS=100",
			"KUBECONFIG="+os.DevNull)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		printed, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code < 0 || code > 1 { // 1 is a negative answer
			t.Fatalf("%s: %v: %s", command, err, &stderr)
		}
		fmt.Fprintf(&out, "%s\n", line)
		for _, line := range strings.Split(strings.TrimRight(string(printed), "\n"), "\n") {
			fmt.Fprintf(&out, "%s\n", strings.TrimRight(line, " "))
		}
	}
	return out.String()
}

// like matches what is equal but for ellipses, which match something within a line, and the width of columns, which
// follows from that.
func like(text string) *regexp.Regexp {
	pattern := regexp.MustCompile(` {2,}`).ReplaceAllLiteralString(regexp.QuoteMeta(text), " +")
	return regexp.MustCompile("^" + strings.ReplaceAll(pattern, "…", ".+") + "$")
}
