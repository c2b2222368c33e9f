package classifiergen

import (
	"fmt"
	"regexp"
	"strconv"
)

// plain is what may stand in a marker: text that needs no quoting in Go, CEL, YAML, Markdown and the
// wire format.
var plain = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// markers are the values of a declaration's markers by name. Reading takes them out, so what is left
// is unknown. The first mistake is kept.
type markers struct {
	values map[string][]string
	err    error
}

func (m *markers) fail(name, why string) {
	if m.err == nil {
		m.err = fmt.Errorf("marker %s%s %s", prefix, name, why)
	}
}

// take returns all values of a marker.
func (m *markers) take(name string) []string {
	values := m.values[name]
	delete(m.values, name)
	for _, value := range values {
		if !plain.MatchString(value) {
			m.fail(name, fmt.Sprintf("has value %q: use letters, digits, '.', '_', '/' and '-'", value))
		}
	}
	return values
}

// optional returns the value of a marker that may be left out.
func (m *markers) optional(name, absent string) string {
	values := m.take(name)
	switch len(values) {
	case 0:
		return absent
	case 1:
		return values[0]
	default:
		m.fail(name, "is given twice: keep one")
		return absent
	}
}

// one returns the value of a marker that must be there.
func (m *markers) one(name string) string {
	value := m.optional(name, "")
	if value == "" {
		m.fail(name, "is missing")
	}
	return value
}

// number returns a marker's whole number within bounds.
func (m *markers) number(name string, absent, least, most int64) int64 {
	text := m.optional(name, strconv.FormatInt(absent, 10))
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < least || value > most {
		m.fail(name, fmt.Sprintf("has value %q: write a whole number from %d to %d", text, least, most))
	}
	return value
}

// flag returns a marker's truth.
func (m *markers) flag(name string) bool {
	text := m.optional(name, "false")
	if text != "true" && text != "false" {
		m.fail(name, fmt.Sprintf("has value %q: write true, or leave it out", text))
	}
	return text == "true"
}
