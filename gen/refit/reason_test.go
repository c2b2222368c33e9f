package refit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/placement"
)

// declared returns the values of reason.go's constants.
func declared(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.GenDecl); ok && c.Tok != token.CONST {
			return false
		}
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Reason(value))
		}
		return true
	})
	return all
}

func TestReasonsAreClosed(t *testing.T) {
	var listed []Reason
	for _, f := range Reasons() {
		listed = append(listed, f.Reason)
		if f.Status < 400 || http.StatusText(f.Status) == "" || f.Means == "" {
			t.Errorf("%s: status %d, %q", f.Reason, f.Status, f.Means)
		}
		if got := f.Reason.Fact(); got != f {
			t.Errorf("%s: its fact is %+v", f.Reason, got)
		}
	}
	if diff := cmp.Diff(declared(t), listed); diff != "" {
		t.Errorf("constants and Reasons differ (-constants +list):\n%s", diff)
	}
	if got := Reason("Whatever").Fact(); got.Reason != Internal {
		t.Errorf("what is no reason is %+v", got)
	}
}

func TestPlacementReasonsHaveNames(t *testing.T) {
	r := placement.Mismatch
	for ; r.String() != "Unknown reason"; r++ {
		if of(r) == Internal {
			t.Errorf("%v has no name", r)
		}
	}
	if of(r) != Internal || of(placement.Fits) != Internal {
		t.Error("no refusal by placement is one of this package")
	}
}
