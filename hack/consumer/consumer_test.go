package consumer

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// What is published as core/v0.1.0 can be required without a replace, vendored, built and tested, with
// nothing beside it and no network.
func TestVendoredConsumer(t *testing.T) {
	core := module.Version{Path: "github.com/phasegpu/phasegpu/core", Version: "v0.1.0"}
	proxy := t.TempDir()
	publish(t, proxy, core, filepath.Join("..", "..", "core"))

	consumer := t.TempDir()
	if err := os.CopyFS(consumer, os.DirFS(filepath.Join("testdata", "consumer"))); err != nil {
		t.Fatal(err)
	}
	run := goIn(t, consumer, proxy)
	run("mod", "init", "example.com/consumer")
	run("get", core.String())
	run("mod", "tidy")
	run("mod", "vendor")

	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(run("mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace) > 0 || len(mod.Require) != 1 || mod.Require[0].Path != core.Path || mod.Require[0].Version != core.Version {
		t.Errorf("the consumer's go.mod is %+v, want it to require %v alone", mod, core)
	}
	vendored, err := filepath.Glob(filepath.Join(consumer, "vendor", "*", "*"))
	if err != nil || len(vendored) != 1 {
		t.Errorf("vendored: %v, %v, want core alone", vendored, err)
	}

	if err := os.RemoveAll(proxy); err != nil {
		t.Fatal(err)
	}
	run("build", "-mod=vendor", "./...")
	if out := string(run("test", "-mod=vendor", "-v", "./...")); !strings.Contains(out, "--- PASS: TestReserve") {
		t.Errorf("the consumer's own tests did not run:\n%s", out)
	}
}

// publish puts a directory into a file-based module proxy; see https://go.dev/ref/mod#goproxy-protocol.
func publish(t *testing.T, proxy string, m module.Version, dir string) {
	t.Helper()
	versions := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write("list", []byte(m.Version+"\n"))
	write(m.Version+".info", fmt.Appendf(nil, `{"Version":%q}`, m.Version))
	write(m.Version+".mod", mod)
	zip, err := os.Create(filepath.Join(versions, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := modzip.CreateFromDir(zip, m, dir); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
}

// goIn returns a function that runs the go command in a directory with that proxy alone, untouched by
// this workspace and by how the machine's own go command is set up, and returns its output.
func goIn(t *testing.T, dir, proxy string) func(args ...string) []byte {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(),
		"GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+filepath.ToSlash(proxy), "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GONOSUMDB=", "GOVCS=*:off",
		"GOCACHE="+strings.TrimSpace(string(cache)),
		"GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", // so that no other v0.1.0 is found, and it can be removed
	)
	return func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
}
