package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const file = `# Numbers
<!-- BEGIN MEASURED one -->
old
<!-- END MEASURED one -->
between
<!-- BEGIN MEASURED two -->
<!-- END MEASURED two -->
`

func TestSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.md")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		for name, text := range map[string]string{"one": "\n| a |\n\n", "two": "b"} {
			if err := run([]string{path, name}, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const want = `# Numbers
<!-- BEGIN MEASURED one -->

| a |

<!-- END MEASURED one -->
between
<!-- BEGIN MEASURED two -->

b

<!-- END MEASURED two -->
`
	for _, c := range []struct {
		args     []string
		in, says string
	}{
		{[]string{path, "three"}, "c", "BEGIN MEASURED three"},
		{[]string{path, "one"}, " \n", "nothing on stdin"},
		{[]string{path}, "c", "usage"},
		{[]string{path + "x", "one"}, "c", "no such file"},
	} {
		if err := run(c.args, strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q with %q on stdin: %v, want an error with %q", c.args, c.in, err, c.says)
		}
	}
	if _, err := replace("<!-- BEGIN MEASURED one -->\n", "one", "x"); err == nil {
		t.Error("a section without an end is replaced")
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
