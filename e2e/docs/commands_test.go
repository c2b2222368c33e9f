package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// real are the programs that pages may use as they are.
var real = []string{"bash"}

// outside are the programs that are not run, and why. Each must be used by a page.
var outside = map[string]string{
	"cmctl": "speaks to what is not on this control plane: cert-manager",
	"helm":  "takes off what is not on this control plane: HAMi",
}

// TestPages tries what the pages say on a control plane with phasegpu: each command, each manifest, and what
// is said of preemption.
func TestPages(t *testing.T) {
	f := newFixture(t)
	t.Run("preemption", f.preemption) // first: the rest needs no scheduler
	t.Run("commands", func(t *testing.T) {
		for _, page := range pages(t) {
			for _, b := range blocksOf(t, page) {
				if b.language == "sh" {
					t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) { f.run(t, b.text) })
				}
			}
		}
		for name := range outside {
			if _, err := os.Stat(filepath.Join(f.used, name)); err != nil {
				t.Errorf("no page uses %s, so it needs no exception", name)
			}
		}
	})
	t.Run("manifests", func(t *testing.T) {
		for _, page := range pages(t) {
			for _, b := range blocksOf(t, page) {
				switch b.language {
				case "yaml":
					t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) { f.manifest(t, b) })
				case "json":
					if !json.Valid([]byte(b.text)) {
						t.Errorf("%s:%d is no JSON", b.page, b.line)
					}
				}
			}
		}
	})
}

// run runs a block as bash does, in a folder in which the checkout's files are found and what is written is
// thrown away. A command that is neither of real nor of outside nor has a stand-in is not found.
func (f *fixture) run(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(f.checkout)
	must(t, err)
	for _, entry := range entries {
		must(t, os.Symlink(filepath.Join(f.checkout, entry.Name()), filepath.Join(dir, entry.Name())))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(f.path, "bash"), "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(f.environment(), "PATH="+f.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, script, out)
	} else {
		t.Logf("%s", out)
	}
}

// environment is what stand-ins need to know.
func (f *fixture) environment() []string {
	return []string{
		"KUBECONFIG=" + f.AdminKubeconfig(), "KUBECTL=" + f.kubectl, "LEDGER=" + f.LedgerURL(),
		"CHECKOUT=" + f.checkout, "PROGRAMS=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
	}
}

// manifest has the API server and the webhook judge a manifest, or a part of one.
func (f *fixture) manifest(t *testing.T, b block) {
	t.Helper()
	var object map[string]any
	must(t, yaml.UnmarshalStrict([]byte(b.text), &object))
	switch kind := object["kind"]; {
	case kind == "Kustomization":
		f.kustomization(t, b.text)
		return
	case kind == nil: // what a pod's metadata would have
		object["apiVersion"], object["kind"] = "v1", "Pod"
		metadata, ok := object["metadata"].(map[string]any)
		if len(object) != 3 || !ok {
			t.Fatal("without a kind, it should have metadata alone")
		}
		metadata["name"] = "annotated"
		object["spec"] = stack.NewPod("", "", stack.App("app", stack.GPU(1, 1024))).Spec
	}
	text, err := json.Marshal(object)
	must(t, err)
	out := f.kubectlDoes(t, string(text), "create", "--dry-run=server", "-f", "-", "-o",
		"jsonpath={.kind} {.spec.schedulerName}")
	if strings.HasPrefix(out, "Pod ") && out != "Pod "+stack.SchedulerName {
		t.Errorf("the webhook did not take the pod for one of phasegpu's: %s", out)
	}
}

// kustomization checks that what an example takes from this repository is there.
func (f *fixture) kustomization(t *testing.T, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		if _, path, ok := strings.Cut(line, "github.com/phasegpu/phasegpu//"); ok {
			path, _, _ = strings.Cut(path, "?")
			if _, err := os.Stat(filepath.Join(f.checkout, path, "kustomization.yaml")); err != nil {
				t.Error(err)
			}
		}
	}
}
