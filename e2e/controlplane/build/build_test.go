package build

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestPrograms builds the smallest program into an empty cache, for two who ask at once.
func TestPrograms(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("PHASEGPU_CACHE", cache)
	type answer struct {
		paths    []string
		err      error
		progress bytes.Buffer
	}
	var answers [2]answer
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() {
			a := &answers[i]
			a.paths, a.err = Programs(t.Context(), &a.progress, "etcd")
		})
	}
	both.Wait()
	said := ""
	for i := range answers {
		if answers[i].err != nil {
			t.Fatal(answers[i].err)
		}
		said += answers[i].progress.String()
	}
	if n := strings.Count(said, "building etcd"); n != 1 {
		t.Errorf("built %d times:\n%s", n, said)
	}
	path := answers[0].paths[0]
	if path != answers[1].paths[0] || !strings.HasPrefix(path, cache) {
		t.Errorf("paths %s and %s, want one in %s", path, answers[1].paths[0], cache)
	}
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "etcd Version: 3.") {
		t.Errorf("etcd --version: %v: %s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".build-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary directories left: %v, %v", left, err)
	}
	var again bytes.Buffer
	if _, err := Programs(t.Context(), &again, "etcd"); err != nil || again.Len() != 0 {
		t.Errorf("asked again: %v, said %q, want silence", err, again.String())
	}
}

func TestProgramsFails(t *testing.T) {
	t.Run("unknown program", func(t *testing.T) {
		_, err := Programs(t.Context(), &bytes.Buffer{}, "kube-dns")
		if err == nil || !strings.Contains(err.Error(), "kube-dns") ||
			!strings.Contains(err.Error(), "kube-apiserver") {
			t.Errorf("error %v, want one naming the program and those that there are", err)
		}
	})
	t.Run("outside a checkout", func(t *testing.T) {
		t.Chdir(t.TempDir())
		_, err := Programs(t.Context(), &bytes.Buffer{}, "etcd")
		if err == nil || !strings.Contains(err.Error(), "checkout") {
			t.Errorf("error %v, want one that says where to run this", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		cache := t.TempDir()
		l := locateIn(t, cache)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.provide(ctx, &bytes.Buffer{}, "etcd", filepath.Join(l.bin, "etcd")); err == nil {
			t.Error("no error")
		}
		if present(filepath.Join(l.bin, "etcd")) {
			t.Error("a binary appeared")
		}
	})
	t.Run("does not compile", func(t *testing.T) {
		l := locateIn(t, t.TempDir())
		l.source = t.TempDir()
		for name, text := range map[string]string{"go.mod": "module x\n",
			"main.go": "package main\n\nfunc main() { undefined() }\n"} {
			if err := os.WriteFile(filepath.Join(l.source, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := l.provide(t.Context(), &bytes.Buffer{}, "etcd", filepath.Join(l.bin, "etcd"))
		if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
			t.Errorf("error %v, want the compiler's", err)
		}
	})
}

func locateIn(t *testing.T, cache string) location {
	t.Helper()
	t.Setenv("PHASEGPU_CACHE", cache)
	m, err := moduleOf("etcd")
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.locate()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKubernetesVersionFlags(t *testing.T) {
	const pkg = "k8s.io/component-base/version"
	want := "-s -w -X " + pkg + ".gitVersion=v1.37.2 -X " + pkg + ".gitMajor=1 -X " + pkg + ".gitMinor=37"
	if got := kubernetesVersionFlags("v1.37.2"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVersionIn(t *testing.T) {
	for _, c := range []struct{ goMod, want string }{
		{"module m\n\nrequire example.test/m v1.2.3\n", "v1.2.3"},
		{"require (\n\texample.test/mm v9.9.9\n\texample.test/m v1.2.4 // indirect\n)\n", "v1.2.4"},
		{"require example.test/other v1.0.0\nreplace example.test/m => ../m\n", ""},
	} {
		got, err := versionIn(c.goMod, "example.test/m")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("versionIn(%q) = %q, %v; want %q", c.goMod, got, err, c.want)
		}
	}
}
