// Package truthtable checks that the tests which docs/refit.md and docs/security.md name exist.
package truthtable

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A reference is `folder` `TestName`, and perhaps `a case within it`, which some file of the folder has as a string.
func TestNamedTestsExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9/-]+)` `(Test[A-Za-z0-9]+)`(?: `([^`]+)`)?")
	for _, page := range []string{"refit.md", "security.md"} {
		for _, match := range named.FindAllStringSubmatch(source(t, "docs", page), -1) {
			text := source(t, match[1], "*.go")
			if !strings.Contains(text, "\nfunc "+match[2]+"(") || match[3] != "" && !strings.Contains(text, `"`+match[3]+`"`) {
				t.Errorf("%s: there is no %s", page, match[0])
			}
		}
	}
}

// source returns the repository's files of a pattern, one after the other.
func source(t *testing.T, path ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.Join(path...)))
	if err != nil || len(files) == 0 {
		t.Fatal(path, "has no files: ", err)
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
