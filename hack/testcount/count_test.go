package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The stream is that of the real `go test -json`, so that a change in its format is seen here.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, source string
		want         count
		shown        []string
		hidden       []string
	}{
		{
			"subtests are counted once each",
			`func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Log("quiet") }); t.Run("y", func(*testing.T) {}) }
			func TestB(t *testing.T) {}`,
			count{passed: 4}, []string{"ok   example.com/x"}, []string{"quiet"},
		},
		{
			"a failure shows its output",
			`func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Error("loud") }) }
			func TestB(t *testing.T) { t.Log("quiet") }`,
			count{passed: 1, failed: 2}, []string{"FAILED example.com/x TestA/x", "loud", "FAIL example.com/x"}, []string{"quiet"},
		},
		{
			"a skip says why",
			`func TestA(t *testing.T) { testing.TB(t).Skip("no such card") }
			func TestB(t *testing.T) {}`,
			count{passed: 1, skipped: 1}, []string{"skipped example.com/x TestA", "no such card"}, nil,
		},
		{
			"a panic",
			`func TestA(t *testing.T) {}
			func TestB(t *testing.T) { panic("alarm") }`,
			count{passed: 1, failed: 1}, []string{"alarm"}, nil,
		},
		{
			"an early exit fails the package although no test failed",
			`func TestA(t *testing.T) {}
			func TestMain(m *testing.M) { m.Run(); println("gone"); os.Exit(3) }`,
			count{passed: 1, failed: 1}, []string{"FAIL example.com/x"}, nil,
		},
		{
			"what does not compile is one failure",
			`func TestA(t *testing.T) { undefined() }`,
			count{failed: 1}, []string{"undefined: undefined", "FAIL example.com/x"}, nil,
		},
		{"no test", ``, count{}, nil, nil},
		{"examples and seeds of fuzz targets count", `func FuzzA(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }`, count{passed: 2}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "go.mod", "module example.com/x\n\ngo 1.26.0\n")
			write(t, dir, "x_test.go", "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\nvar _ testing.TB\n\n"+c.source+"\n")
			cmd := exec.Command("go", "test", "-json", ".")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			stream, _ := cmd.Output() // it fails where the tests do
			var out strings.Builder
			got, err := read(strings.NewReader("not JSON\n"+string(stream)), &out)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("counted %v, want %v in\n%s", got, c.want, stream)
			}
			for _, s := range append(c.shown, "not JSON\n") {
				if !strings.Contains(out.String(), s) {
					t.Errorf("does not show %q:\n%s", s, out.String())
				}
			}
			for _, s := range c.hidden {
				if strings.Contains(out.String(), s) {
					t.Errorf("shows %q:\n%s", s, out.String())
				}
			}
		})
	}
}

// A stream that breaks off, because `go test` was killed, is no success.
func TestReadBrokenOff(t *testing.T) {
	var out strings.Builder
	got, err := read(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"last words\n"}
{"Action":"pass","Package":"q","Test":"TestB"}
{"Action":"pass","Package":"q"}
`), &out)
	if want := (count{passed: 1, failed: 1}); err != nil || got != want {
		t.Errorf("counted %v, %v, want %v", got, err, want)
	}
	if !strings.Contains(out.String(), "FAIL p: it never ended\nlast words") {
		t.Errorf("shown:\n%s", out.String())
	}
}

func TestString(t *testing.T) {
	if got, want := fmt.Sprint(count{1200, 3, 0}), "1200 passed, 3 failed, 0 skipped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
