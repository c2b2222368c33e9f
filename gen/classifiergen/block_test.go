package classifiergen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewrite(t *testing.T) {
	blocks := map[string][]string{"list": {"- a", "", "- b"}, "one": {"1"}}
	for _, test := range []struct{ name, in, want, err string }{
		{
			name: "YAML, indented like its marker",
			in:   "x:\n  # BEGIN GENERATED list (make generate)\n  - old\n  # END GENERATED list\ny: 1\n",
			want: "x:\n  # BEGIN GENERATED list (make generate)\n  - a\n\n  - b\n  # END GENERATED list\ny: 1\n",
		},
		{
			name: "Markdown, twice, no newline at the end",
			in:   "<!-- BEGIN GENERATED one -->\n<!-- END GENERATED one -->\n<!-- BEGIN GENERATED list -->\n<!-- END GENERATED list -->",
			want: "<!-- BEGIN GENERATED one -->\n1\n<!-- END GENERATED one -->\n<!-- BEGIN GENERATED list -->\n- a\n\n- b\n<!-- END GENERATED list -->",
		},
		{
			name: "tabs and slashes",
			in:   "\t// BEGIN GENERATED one\n\t// END GENERATED one\n",
			want: "\t// BEGIN GENERATED one\n\t1\n\t// END GENERATED one\n",
		},
		{name: "no marker", in: "x: 1\n", err: "no line says BEGIN GENERATED and one of list, one: add the markers or take the file off the command line"},
		{name: "unknown block", in: "\n# BEGIN GENERATED three\n", err: `line 2: block "three" is unknown: use one of list, one`},
		{name: "no end", in: "# BEGIN GENERATED one\n", err: "BEGIN GENERATED one without its END"},
		{name: "no begin", in: "# END GENERATED one\n", err: "line 1: END GENERATED one without its BEGIN"},
		{name: "another end", in: "# BEGIN GENERATED one\n# END GENERATED list\n", err: "line 2: END GENERATED list without its BEGIN"},
		{name: "nested", in: "# BEGIN GENERATED one\n# BEGIN GENERATED list\n", err: "line 2: BEGIN GENERATED list within one: end that first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := rewrite([]byte(test.in), blocks)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := rewrite(got, blocks)
			if err != nil || string(again) != string(got) {
				t.Errorf("a second run changes the text (%v):\n%s", err, again)
			}
		})
	}
}

// TestAllOrNone: one bad file keeps the good ones as they were.
func TestAllOrNone(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	text := "# BEGIN GENERATED one\n# END GENERATED one\n"
	for path, content := range map[string]string{good: text, bad: "nothing\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := rewriteFiles([]string{good, bad}, map[string][]string{"one": {"1"}})
	if err == nil || !strings.HasPrefix(err.Error(), bad+": ") {
		t.Errorf("error %v, want one that names %s", err, bad)
	}
	if got, _ := os.ReadFile(good); string(got) != text {
		t.Errorf("the good file was written: %q", got)
	}
}
