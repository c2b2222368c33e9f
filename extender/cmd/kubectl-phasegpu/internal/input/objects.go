package input

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Read adds the objects of one input to the set. Objects without a namespace are in the given one.
func (s *Set) Read(r io.Reader, file, namespace string) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("larger than %d MiB: split it, or name the pods and let the cluster be asked", MaxBytes>>20)
	}
	if err != nil {
		s.Fail(Source{File: file}, err)
		return
	}
	documents := split(text)
	if len(documents) == 0 {
		s.Fail(Source{File: file}, errors.New("holds no document"))
	}
	reader := reader{s, namespace}
	for _, d := range documents {
		source := Source{File: file, Document: d.number, Line: d.firstLine()}
		values, errs := d.decode()
		for _, value := range values {
			reader.value(source, value, "")
		}
		for _, err := range errs {
			s.Fail(source, err)
		}
	}
}

type reader struct {
	*Set
	namespace string
}

// value reads one object or list. kind is what a typed list says of its items, which need not repeat it.
func (r *reader) value(source Source, value any, kind string) {
	object, ok := value.(map[string]any)
	if !ok {
		r.Fail(source, fmt.Errorf("is %s where a Kubernetes object (apiVersion, kind, …) should be", describe(value)))
		return
	}
	kind = cmp.Or(text(object, "kind"), kind)
	if kind == "" {
		r.Fail(source, errors.New("kind: is missing: every object names its apiVersion and kind"))
		return
	}
	if items, isList := object["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		for i, item := range items {
			source.Object = fmt.Sprintf("items[%d]", i)
			r.value(source, item, strings.TrimSuffix(kind, "List"))
		}
		return
	}
	r.object(source, kind, object)
}

func (r *reader) object(source Source, kind string, object map[string]any) {
	name := cmp.Or(text(object, "metadata", "name"), text(object, "metadata", "generateName"))
	namespace := cmp.Or(text(object, "metadata", "namespace"), r.namespace)
	switch {
	case name == "":
		source.Object = kind
	case kind == "Node":
		source.Object = kind + " " + name
	default:
		source.Object = kind + " " + namespace + "/" + name
	}
	version := cmp.Or(text(object, "apiVersion"), "v1") // a typed list's items leave it out
	var templates []template
	if version != "v1" || !slices.Contains([]string{"Pod", "Node", "ResourceQuota"}, kind) {
		if templates = findTemplates(kind, object); len(templates) == 0 {
			r.withoutTemplate(source, kind)
			return
		}
	}
	if name == "" {
		err := errors.New("metadata.name: is missing")
		if metadata, ok := object["metadata"].(map[string]any); ok && metadata["name"] != nil {
			err = fmt.Errorf("metadata.name: is %s where a text should be%s", describe(metadata["name"]), quotes)
		}
		r.Fail(source, err)
		return
	}
	switch {
	case len(templates) > 0:
		for _, t := range templates {
			r.template(source, kind, namespace, name, t, len(templates) > 1)
		}
	case kind == "Pod":
		pod := new(corev1.Pod)
		if r.typed(source, object, pod) {
			r.pod(source, kind, namespace, name, pod, 0)
		}
	case kind == "Node":
		node := new(corev1.Node)
		if r.typed(source, object, node) {
			r.AddNode(node)
		}
	default:
		quota := new(corev1.ResourceQuota)
		if r.typed(source, object, quota) {
			quota.Namespace = namespace
			r.AddQuota(quota)
		}
	}
}

func (r *reader) pod(source Source, kind, namespace, name string, pod *corev1.Pod, replicas int64) {
	if len(pod.Spec.Containers) == 0 {
		r.Fail(source, errors.New("spec.containers: is empty: a pod has at least one container"))
		return
	}
	for _, warning := range kube.Misspelt(pod) {
		r.warn(source, errors.New(warning))
	}
	pod.Namespace, pod.Name = namespace, name
	r.Pods = append(r.Pods, Pod{Pod: pod, Source: source, Kind: kind, Replicas: replicas})
}

func (r *reader) warn(source Source, err error) {
	r.Problems = append(r.Problems, Problem{source, err, true})
}

// typed decodes an object. Fields that its type does not have are warnings, because a newer API server
// may know them; what does not fit its field is an error.
func (r *reader) typed(source Source, object map[string]any, into any) bool {
	err := checkQuantities(object, nil)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(object)
	}
	var unknown []error
	if err == nil {
		unknown, err = kjson.UnmarshalStrict(raw, into)
	}
	if err != nil {
		r.Fail(source, plain(err))
		return false
	}
	for _, u := range unknown {
		r.warn(source, fmt.Errorf("%w: is it misspelt?", u))
	}
	return true
}

// plain takes Go's words out of a decoding error and leaves the field.
func plain(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	is, _, _ := strings.Cut(wrong.Value, " ") // "number 12"
	hint, want := "", noun(wrong.Type.Kind().String())
	if want == "a text" && (is == "number" || is == "bool") {
		hint = quotes
	}
	return fmt.Errorf("%s: is %s where %s should be%s", wrong.Field, noun(is), want, hint)
}

// quotes is the fix for what YAML takes for something else than the text it was meant to be.
const quotes = ": put it in quotes"

// describe names the kind of a decoded value.
func describe(value any) string {
	if value == nil {
		return "empty"
	}
	return noun(reflect.TypeOf(value).Kind().String())
}

// noun names a kind of JSON or Go in words.
func noun(kind string) string {
	switch kind {
	case "slice", "array":
		return "a list"
	case "map", "struct", "object", "ptr":
		return "an object"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	default:
		return "a number"
	}
}

// checkQuantities parses every quantity of an object, because the decoder's own error does not name it.
func checkQuantities(value any, at *field.Path) error {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			check := checkQuantities
			if slices.Contains([]string{"limits", "requests", "hard", "capacity", "allocatable"}, key) {
				check = parseQuantities
			}
			if err := check(v[key], child(at, key)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := checkQuantities(item, at.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseQuantities checks a list of resources; of anything else the decoder says what is wrong.
func parseQuantities(value any, at *field.Path) error {
	quantities, ok := value.(map[string]any)
	if !ok {
		return checkQuantities(value, at)
	}
	for _, name := range sortedKeys(quantities) {
		switch value := quantities[name].(type) {
		case string, int64, uint64, int, float64:
			if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
				return fmt.Errorf("%v: %q is not a quantity", child(at, name), fmt.Sprint(value))
			}
		case nil:
		default:
			return fmt.Errorf("%v: is %s where a quantity should be", child(at, name), describe(value))
		}
	}
	return nil
}

// text returns the string at a path, "" when there is none.
func text(object map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	s, _ := object[path[len(path)-1]].(string)
	return s
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
