package signals

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

// few is how many values of a label are listed; a label with more is explained in the help.
const few = 10

// objects are labels that name objects: their values are those of this run.
var objects = map[string]bool{"node": true, "uuid": true, "namespace": true, "quota": true, "resource": true}

// TestReference compares docs/metrics.md with what the binaries serve.
func TestReference(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	want := reference(metrics(t))
	file := filepath.Join(root, "docs", "metrics.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/metrics.md is not what the binaries serve; run go test ./e2e/signals -update: %s", diff)
	}
}

func reference(all [][]family) string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made by go test ./e2e/signals -update from what the binaries serve; not written by hand. -->

Each binary serves these at ` + "`/metrics`" + ` of port 8080, beside those of every Go process (` + "`go_*`, `process_*`" + `).
[monitoring](../monitoring/README.md) has a dashboard and alert rules made of them; [operations](operations.md) says
what to do about an alert. Labels that name objects end with the object; all others have the values listed here, or
in the metric's words.
`)
	for i, binary := range binaries() {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | is |\n|---|---|---|---|\n", binary.title)
		for _, f := range all[i] {
			if !strings.HasPrefix(f.Name, "phasegpu_") {
				continue
			}
			var labels []string
			for _, name := range f.Labels {
				text := "`" + name + "`"
				values := slices.Sorted(maps.Keys(f.Values[name]))
				if !objects[name] && len(values) <= few && values[0] != "" {
					text += ": " + strings.Join(values, ", ")
				}
				labels = append(labels, text)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(labels, "; "),
				strings.ReplaceAll(f.Help, "|", "\\|"))
		}
	}
	return b.String()
}
