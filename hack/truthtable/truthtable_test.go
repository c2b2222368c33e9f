package truthtable

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of a table whose last column is "test" names at least one: `folder` `TestName`, and perhaps `a case within
// it`, which a file of the folder has as a string; several with "; " between them.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	for name, least := range map[string]int{"refit.md": 50, "security.md": 40} {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		rows, tested := 0, false
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			last := strings.TrimSpace(cells[len(cells)-1])
			switch {
			case !strings.HasPrefix(line, "|"):
				tested = false
			case strings.HasPrefix(line, "|--"):
			case last == "test":
				tested = true
			case tested:
				rows++
				if len(cells) != 3 {
					t.Errorf("%s: %d cells, want 3: %s", name, len(cells), line)
				}
				for reference := range strings.SplitSeq(last, "; ") {
					exists(t, root, name, reference)
				}
			}
		}
		if rows < least {
			t.Errorf("%s: %d rows were found", name, rows)
		}
	}
}

func exists(t *testing.T, root, name, reference string) {
	t.Helper()
	match := regexp.MustCompile("^`([a-z0-9/-]+)` `(Test[A-Za-z0-9]+)`(?: `([^`]+)`)?$").FindStringSubmatch(reference)
	if match == nil {
		t.Errorf("%s: %q names no test", name, reference)
		return
	}
	tests := sources(t, filepath.Join(root, match[1]))
	if !strings.Contains(tests, "\nfunc "+match[2]+"(") {
		t.Errorf("%s: %s has no %s", name, match[1], match[2])
	}
	if match[3] != "" && !strings.Contains(tests, `"`+match[3]+`"`) {
		t.Errorf("%s: %s has no case %q", name, match[1], match[3])
	}
}

// sources returns the files of a folder, one after the other: a test's cases may be in any.
func sources(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
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
