package render

import (
	"errors"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 100, "░░░░░░░░░░"},
		{1, 100000, "█░░░░░░░░░"}, // what is there is seen
		{44, 100, "████░░░░░░"},
		{100, 100, "██████████"},
		{250, 100, "██████████"}, // held above capacity
		{1 << 62, 1<<63 - 1, "█████░░░░░"},
		{5, 0, "░░░░░░░░░░"},
	} {
		full, light := Screen{}.Bar(c.part, c.whole, 10)
		if got := full + light; got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}

func TestColumn(t *testing.T) {
	for _, c := range []struct {
		name   string
		screen Screen
		value  int64
		faded  bool
		want   []string
	}{
		{"the largest", Screen{}, 12, false, []string{"██", "██", "██"}},
		{"half", Screen{}, 6, false, []string{"  ", "▄▄", "██"}},
		{"nothing", Screen{}, 0, false, []string{"  ", "  ", "  "}},
		{"next to nothing", Screen{}, 1, false, []string{"  ", "  ", "▂▂"}},
		{"half, given back", Screen{}, 6, true, []string{"  ", "░░", "░░"}},
		{"half, in ASCII", Screen{ASCII: true}, 6, false, []string{"  ", "__", "##"}},
	} {
		if diff := cmp.Diff(c.want, c.screen.Column(c.value, 12, 3, 2, c.faded)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"load", 4, "load"}, {"loader", 4, "loa…"}, {"größer", 6, "größer"}, {"größer", 4, "grö…"}, {"load", 1,
			"…"}, {"load", 0, ""}, {"load", -1, ""},
	} {
		if got := (Screen{}).Cut(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestPaint(t *testing.T) {
	if got := (Screen{}).Paint(Red, "x"); got != "x" {
		t.Errorf("without colours: %q", got)
	}
	if got := (Screen{Color: true}).Paint(Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colours: %q", got)
	}
	if got := (Screen{Color: true}).Paint(Red, "  "); got != "  " {
		t.Errorf("blanks: %q", got)
	}
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"GPU-a", "GPU-a"},
		{"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"},
		{"\x1b[2Jgone", "\ufffd[2Jgone"},
		{"\x1b]0;title\a", "\ufffd]0;title\ufffd"},
		{"two\nlines\r", "two\ufffdlines\ufffd"},
		{"\u009b31m", "\ufffd31m"},
		{"\x1b[", "\ufffd["},
	} {
		if got := Clean(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	// Whatever is in a text, only styles are left of its control characters.
	harmless := func(text string) bool {
		rest := Clean(text + "\x1b[1m")
		for i := range rest {
			if styleLength(rest[i:]) == 0 && rest[i] < ' ' {
				return false
			}
		}
		return true
	}
	if err := quick.Check(harmless, nil); err != nil {
		t.Error(err)
	}
}

type failing struct{ writes int }

func (f *failing) Write([]byte) (int, error) {
	f.writes++
	return 0, errors.New("disk full")
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := Screen{}.To(&out)
	p.Line("a", " b ", "  ")
	p.Line()
	if got := out.String(); got != "a b\n\n" || p.Err != nil {
		t.Errorf("%q, %v", got, p.Err)
	}
	full := &failing{}
	p = Screen{}.To(full)
	p.Line("a")
	p.Line("b")
	if full.writes != 1 || p.Err == nil {
		t.Errorf("%d writes after the first error %v", full.writes, p.Err)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	p := Screen{}.To(&out)
	p.Table("  ", []int{1}, Row{Cells: []string{"größer", "1", "x"}}, Row{Cells: []string{"a", "100"}}, Row{})
	if diff := cmp.Diff("  größer    1  x\n  a       100\n\n", out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestJoin(t *testing.T) {
	words := []string{"a", "b", "c"}
	for _, c := range []struct{ got, want string }{
		{And(nil), ""}, {And(words[:1]), "a"}, {And(words), "a, b and c"},
		{Names(words, 3), "a, b, c"}, {Names(words, 2), "a, b and 1 more"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
