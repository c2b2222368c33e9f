package wire

import (
	"reflect"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/placement"
)

func TestPolicyValues(t *testing.T) {
	// what a parser makes of a value, as something comparable
	parsers := map[string]func(string) (any, error){
		"policy":    func(v string) (any, error) { return ParsePolicy(v) },
		"alignment": func(v string) (any, error) { return ParseAlignment(v) },
		"bind":      func(v string) (any, error) { return ParseNUMABind(v) },
	}
	for _, c := range []struct {
		parser, value string
		want          any
		refused       string
	}{
		{"policy", "binpack", placement.Binpack, ""},
		{"policy", " spread\n", placement.Spread, ""},
		{"policy", "Spread", nil, `policy "Spread" is unknown: use binpack or spread`},
		{"policy", "", nil, `policy "" is unknown: use binpack or spread`},
		{"policy", strings.Repeat("x", 100), nil, `"` + strings.Repeat("x", 64) + `"… is unknown`},
		{"alignment", "best-effort", BestEffort, ""},
		{"alignment", "\tstrict ", Strict, ""},
		{"alignment", "none", nil, `NUMA alignment "none" is unknown: use best-effort or strict`},
		{"alignment", "", nil, "is unknown"},
		{"bind", "true", true, ""},
		{"bind", " false ", false, ""},
		{"bind", "1", nil, `NUMA bind "1" is unknown: use true or false`},
		{"bind", "", nil, "is unknown"},
	} {
		got, err := parsers[c.parser](c.value)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %q: error %v, want one with %q", c.parser, c.value, err, c.refused)
			}
		case err != nil || got != c.want:
			t.Errorf("%s %q: %v, %v, want %v", c.parser, c.value, got, err, c.want)
		}
	}
}

func TestDecodeList(t *testing.T) {
	for text, want := range map[string][]string{
		"":                  nil,
		" , ,":              nil,
		"G0":                {"G0"},
		" G0 ,G1,, G2\n,":   {"G0", "G1", "G2"},
		"a b,Ａ,\x00":        {"a b", "Ａ", "\x00"},
		"GPU-1;GPU-2,GPU-3": {"GPU-1;GPU-2", "GPU-3"},
	} {
		if got := DecodeList(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := DecodeCordon(text); !reflect.DeepEqual(got, want) {
			t.Errorf("cordon %q: %q, want %q", text, got, want)
		}
	}
}

func FuzzDecodeList(f *testing.F) {
	f.Add(" G0 ,G1,, G2\n,")
	f.Fuzz(func(t *testing.T, text string) {
		values := DecodeList(text)
		for _, v := range values {
			if v == "" || v != strings.TrimSpace(v) || strings.Contains(v, ",") {
				t.Fatalf("%q gave %q", text, v)
			}
		}
		if again := DecodeList(strings.Join(values, ",")); !reflect.DeepEqual(again, values) {
			t.Fatalf("%q came back as %q", values, again)
		}
	})
}

// Whatever a policy parser accepts is, trimmed, the name of its result.
func FuzzParsePolicies(f *testing.F) {
	for _, v := range []string{"binpack", " spread ", "best-effort", "strict", "true", "False", ""} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		trimmed := strings.TrimSpace(value)
		if p, err := ParsePolicy(value); err == nil && p.String() != trimmed {
			t.Errorf("policy %q read as %v", value, p)
		}
		if a, err := ParseAlignment(value); err == nil && (a.String() != trimmed || a == Recorded) {
			t.Errorf("alignment %q read as %v", value, a)
		}
		if b, err := ParseNUMABind(value); err == nil && boolName(b).String() != trimmed {
			t.Errorf("NUMA bind %q read as %v", value, b)
		}
	})
}
