package truthtable

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row names a test: `folder` `TestName`, and perhaps `a case within it`, which the folder's tests have as
// a string.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "refit.md"))
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile("^`([a-z0-9/]+)` `(Test[A-Za-z0-9]+)`(?: `([^`]+)`)?$")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.TrimSpace(cells[0]) == "situation" {
			continue
		}
		rows++
		match := reference.FindStringSubmatch(strings.TrimSpace(cells[len(cells)-1]))
		if len(cells) != 3 || match == nil {
			t.Errorf("no situation, outcome and test: %s", line)
			continue
		}
		tests := sources(t, filepath.Join(root, match[1]))
		if !strings.Contains(tests, "\nfunc "+match[2]+"(") {
			t.Errorf("%s has no %s", match[1], match[2])
		}
		if match[3] != "" && !strings.Contains(tests, `"`+match[3]+`"`) {
			t.Errorf("the tests of %s have no case %q", match[1], match[3])
		}
	}
	if rows < 50 {
		t.Errorf("%d rows were found", rows)
	}
}

// sources returns the test files of a folder, one after the other.
func sources(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
