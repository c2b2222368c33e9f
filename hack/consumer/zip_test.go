package consumer

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// Every module can be zipped as the module proxy does, and no path of the repository is one that the proxy or
// Windows refuses.
func TestModulesCanBeZipped(t *testing.T) {
	root := filepath.Join("..", "..")
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := module.CheckFilePath(path); err != nil {
			t.Error(err)
		}
		dir, isModule := strings.CutSuffix(path, "/go.mod")
		if !isModule || strings.Contains(path, "testdata/") {
			continue
		}
		modules++
		m := module.Version{Path: "github.com/phasegpu/phasegpu/" + dir, Version: "v0.1.0"}
		if err := modzip.CreateFromDir(io.Discard, m, filepath.Join(root, dir)); err != nil {
			t.Errorf("module %s: %v", dir, err)
		}
	}
	if modules == 0 {
		t.Error("no module was found")
	}
}
