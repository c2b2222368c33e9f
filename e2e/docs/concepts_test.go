package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/phases.svg")

// root is the checkout's.
var root = filepath.Join("..", "..")

func worked(t *testing.T) *Example {
	t.Helper()
	e, err := ReadExample(filepath.Join(root, "kind", "samples", "serving.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The picture is what Picture draws of the sample: go test ./e2e/docs -run Picture -update
func TestPicture(t *testing.T) {
	path := filepath.Join(root, "docs", "phases.svg")
	want := Picture(worked(t))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/phases.svg is not what the sample and core give: go test ./e2e/docs -run Picture -update")
	}
}

// The table of docs/concepts.md is computed, and there is no figure on the page that is not.
func TestConceptsFigures(t *testing.T) {
	e := worked(t)
	text := read(t, "docs", "concepts.md")
	known := map[int64]bool{
		CardMiB: true, e.Sum: true,
		CardMiB - e.Peak():    true, // free while the peak is reserved
		CardMiB - e.Steady():  true, // free afterwards
		e.Peak() - e.Steady(): true,
	}
	for _, memory := range e.Memory {
		known[memory] = true
	}
	for _, p := range e.Phases {
		known[p.Uses], known[p.Reserved] = true, true
		line := fmt.Sprintf("| %s | %d | %d | %d |", p.Name, p.Uses, p.Reserved, CardMiB-p.Reserved)
		if !bytes.Contains(text, []byte("\n"+line+"\n")) {
			t.Errorf("docs/concepts.md has no line %s", line)
		}
	}
	found := 0
	for _, number := range regexp.MustCompile(`[0-9]{4,}`).FindAllString(string(text), -1) {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || !known[n] {
			t.Errorf("docs/concepts.md has the figure %s, which the example does not give", number)
		}
		found++
	}
	if found < 10 {
		t.Errorf("docs/concepts.md has %d figures", found)
	}
}
