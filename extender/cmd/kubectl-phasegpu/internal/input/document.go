package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// MaxBytes bounds one input: `kubectl get -o json` of some ten thousand pods. What is larger is read from the
// cluster instead.
const MaxBytes = 64 << 20

// maxExpansion bounds what a document may become once its YAML aliases are followed, in bytes. The YAML
// library bounds the number of nodes but not the size of a string that is repeated.
const maxExpansion = 4 * MaxBytes

// document is one document of an input: number counts from 1, line is where it begins.
type document struct {
	number, line int
	text         []byte
}

// split cuts an input at the lines that separate YAML documents. Documents without content (blank, or
// comments only) are left out and not counted.
func split(text []byte) []document {
	var documents []document
	start, startLine, line := 0, 1, 1
	flush := func(end int) {
		if d := (document{len(documents) + 1, startLine, text[start:end]}); hasContent(d.text) {
			documents = append(documents, d)
		}
	}
	for at := 0; at < len(text); line++ {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		rest, isMark := bytes.CutPrefix(text[at:end], []byte("---"))
		if isMark && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			flush(at)
			start, startLine = at+len("---"), line // what stands on the mark's own line is the document's
		}
		at = end
	}
	flush(len(text))
	return documents
}

// firstLine is the line of the document's first content.
func (d document) firstLine() int {
	line := d.line
	for text := range bytes.Lines(d.text) {
		if hasContent(text) {
			break
		}
		line++
	}
	return line
}

// hasContent reports whether a document holds more than blanks, comments and an end mark.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "..." {
			return true
		}
	}
	return false
}

// decode reads a document: one YAML value, or any number of JSON values one after the other. Values
// that could be read are in the result also when there are errors.
func (d document) decode() ([]any, []error) {
	trimmed := bytes.TrimSpace(d.text)
	var values []any
	var errs []error
	if isJSON(trimmed) {
		if values, errs = decodeJSON(trimmed); len(errs) == 0 || len(values) > 0 {
			return values, errs
		}
	}
	value, err := d.decodeYAML() // also of JSON with a comma too many, say
	switch {
	case err == nil:
		return []any{value}, nil
	case len(errs) > 0:
		return nil, errs
	}
	return nil, []error{err}
}

// isJSON tells what is meant to be JSON from a YAML flow mapping: the first key is in quotes.
func isJSON(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte("{"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '"' || rest[0] == '}')
}

func decodeJSON(text []byte) (values []any, errs []error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return values, errs
		} else if err != nil {
			return values, append(errs, fmt.Errorf("JSON value %d, byte %d: %w", n, decoder.InputOffset(), err))
		}
		var value any
		strict, err := kjson.UnmarshalStrict(raw, &value)
		if err == nil && len(strict) > 0 {
			err = errors.Join(strict...) // duplicate fields
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("JSON value %d: %w", n, err))
			continue
		}
		values = append(values, value)
	}
}

func (d document) decodeYAML() (any, error) {
	var raw any
	if err := yaml.UnmarshalStrict(d.text, &raw); err != nil {
		// Once more behind as many empty lines as there were before, so that its line is the file's.
		padded := append(bytes.Repeat([]byte("\n"), d.line-1), d.text...)
		if again := yaml.UnmarshalStrict(padded, &raw); again != nil {
			err = again
		}
		if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
			return nil, errors.New(strings.Join(several.Errors, "; "))
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	budget := maxExpansion
	return jsonable(raw, nil, &budget)
}

// jsonable turns what the YAML library returns into what JSON can hold. The error names the field.
func jsonable(value any, at *field.Path, budget *int) (_ any, err error) {
	const perNode = 16 // bytes, roughly
	*budget -= perNode
	if s, ok := value.(string); ok {
		*budget -= len(s)
	}
	if *budget < 0 {
		return nil, fmt.Errorf("the document's aliases expand to more than %d MiB", maxExpansion>>20)
	}
	switch v := value.(type) {
	case float64:
		if at != nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return nil, fmt.Errorf("%v: %v is not a number that Kubernetes accepts", at, v)
		}
	case []any:
		for i := range v {
			if v[i], err = jsonable(v[i], at.Index(i), budget); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			name := fmt.Sprint(key)
			*budget -= len(name)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("%v: is given twice", child(at, name))
			}
			if object[name], err = jsonable(item, child(at, name), budget); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return value, nil
}

// child returns the path of a field. A name that is not a plain word, like that of a resource, is in brackets.
func child(at *field.Path, name string) *field.Path {
	if strings.ContainsAny(name, "./[] ") {
		return at.Key(name)
	}
	return at.Child(name)
}
