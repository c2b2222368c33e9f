// Package input reads Kubernetes objects from files: pods, whatever has a pod template, nodes and
// quotas. What cannot be read is a problem that says where it is, and loses nothing else.
package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Source says where an object came from, for messages.
type Source struct {
	File     string // "" for the cluster
	Document int    // from 1
	Line     int    // of the document's first content
	Object   string // e.g. "Deployment ml/train"
}

// String gives the place in reading order, as far as it is known.
func (s Source) String() string {
	var parts []string
	if s.File != "" {
		parts = append(parts, s.File)
	}
	if s.Document > 0 {
		parts = append(parts, fmt.Sprintf("document %d (line %d)", s.Document, s.Line))
	}
	if s.Object != "" {
		parts = append(parts, s.Object)
	}
	return strings.Join(parts, ", ")
}

// Problem is something wrong with an input. A warning does not stop anything.
type Problem struct {
	Source
	Err     error
	Warning bool
}

func (p Problem) Error() string {
	if where := p.Source.String(); where != "" {
		return where + ": " + p.Err.Error()
	}
	return p.Err.Error()
}

// Pod is a pod, or the pod that a workload's template makes. It has a namespace and a name always.
type Pod struct {
	*corev1.Pod
	Source
	Kind     string // "Pod", or the kind of the object that holds the template
	Replicas int64  // of a template, 0 when its owner does not say
}

// Set is what an input holds. Everything is in input order.
type Set struct {
	Pods     []Pod
	Nodes    []*corev1.Node
	Quotas   []*corev1.ResourceQuota
	Problems []Problem
	Others   []string // kinds of the objects that hold no pod, each once
}

// Failed reports whether any problem is more than a warning.
func (s *Set) Failed() bool {
	return slices.ContainsFunc(s.Problems, func(p Problem) bool { return !p.Warning })
}

// Read adds the objects of one input to the set. Objects without a namespace are in the given one.
func (s *Set) Read(r io.Reader, file, namespace string) {
	reader := reader{Set: s, namespace: namespace}
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("larger than %d MiB: split it, or name the pods and let the cluster be asked", MaxBytes>>20)
	}
	if err != nil {
		s.fail(Source{File: file}, err)
		return
	}
	documents := split(text)
	if len(documents) == 0 {
		s.fail(Source{File: file}, errors.New("holds no document"))
	}
	for _, d := range documents {
		source := Source{File: file, Document: d.number, Line: d.firstLine()}
		values, errs := d.decode()
		for _, value := range values {
			reader.value(source, value, "")
		}
		for _, err := range errs {
			s.fail(source, err)
		}
	}
}

func (s *Set) fail(source Source, err error) {
	s.Problems = append(s.Problems, Problem{Source: source, Err: err})
}

func (s *Set) warn(source Source, err error) {
	s.Problems = append(s.Problems, Problem{Source: source, Err: err, Warning: true})
}

type reader struct {
	*Set
	namespace string
}

// value reads one object or list. kind is what a typed list says of its items, which need not repeat it.
func (r *reader) value(source Source, value any, kind string) {
	object, ok := value.(map[string]any)
	if !ok {
		r.fail(source, fmt.Errorf("is %s where a Kubernetes object (apiVersion, kind, …) should be", describe(value)))
		return
	}
	if stated := text(object, "kind"); stated != "" {
		kind = stated
	}
	if kind == "" {
		r.fail(source, &FieldError{Path: "kind", Err: errors.New("is missing: every object names its apiVersion and kind")})
		return
	}
	if items, isList := object["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		for i, item := range items {
			each := source
			each.Object = fmt.Sprintf("items[%d]", i)
			r.value(each, item, strings.TrimSuffix(kind, "List"))
		}
		return
	}
	r.object(source, kind, object)
}

func (r *reader) object(source Source, kind string, object map[string]any) {
	name, namespace := text(object, "metadata", "name"), text(object, "metadata", "namespace")
	if name == "" {
		name = text(object, "metadata", "generateName")
	}
	if namespace == "" {
		namespace = r.namespace
	}
	isCore := text(object, "apiVersion") == "v1" || text(object, "apiVersion") == "" // a typed list's items leave it out
	switch {
	case name == "":
		source.Object = kind
	case kind == "Node":
		source.Object = kind + " " + name
	default:
		source.Object = kind + " " + namespace + "/" + name
	}
	var templates []template
	switch {
	case isCore && (kind == "Pod" || kind == "Node" || kind == "ResourceQuota"):
	default:
		if templates = findTemplates(kind, object); len(templates) == 0 {
			r.withoutTemplate(source, kind)
			return
		}
	}
	if name == "" {
		err := errors.New("is missing")
		if metadata, ok := object["metadata"].(map[string]any); ok && metadata["name"] != nil {
			err = fmt.Errorf("is %s where a text should be%s", describe(metadata["name"]), quotes)
		}
		r.fail(source, &FieldError{Path: "metadata.name", Err: err})
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
			r.Nodes = append(r.Nodes, node)
		}
	case kind == "ResourceQuota":
		quota := new(corev1.ResourceQuota)
		if r.typed(source, object, quota) {
			quota.Namespace = namespace
			r.Quotas = append(r.Quotas, quota)
		}
	}
}

func (r *reader) pod(source Source, kind, namespace, name string, pod *corev1.Pod, replicas int64) {
	if len(pod.Spec.Containers) == 0 {
		r.fail(source, &FieldError{Path: "spec.containers", Err: errors.New("is empty: a pod has at least one container")})
		return
	}
	for _, warning := range kube.Misspelt(pod) {
		r.warn(source, errors.New(warning))
	}
	pod.Namespace, pod.Name = namespace, name
	r.Pods = append(r.Pods, Pod{Pod: pod, Source: source, Kind: kind, Replicas: replicas})
}

// typed decodes an object. Fields that its type does not have are warnings, because a newer API server
// may know them; what does not fit its field is an error.
func (r *reader) typed(source Source, object map[string]any, into any) bool {
	if err := checkQuantities(object); err != nil {
		r.fail(source, err)
		return false
	}
	raw, err := json.Marshal(object)
	if err != nil {
		r.fail(source, err)
		return false
	}
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		r.fail(source, plain(err))
		return false
	}
	for _, u := range unknown {
		r.warn(source, fmt.Errorf("%w: is it misspelt?", u))
	}
	return true
}

// plain takes Go's words out of a decoding error and leaves the field.
func plain(err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		is, _, _ := strings.Cut(wrong.Value, " ") // "number 12"
		hint, want := "", kindWords(wrong.Type.Kind().String())
		if want == "a text" && (is == "number" || is == "bool") {
			hint = quotes
		}
		return &FieldError{Path: wrong.Field, Err: fmt.Errorf("is %s where %s should be%s", kindWords(is), want, hint)}
	}
	return err
}

// quotes is the fix for what YAML takes for something else than the text it was meant to be.
const quotes = ": put it in quotes"

// kindWords names a kind of JSON or Go in words.
func kindWords(kind string) string {
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

// checkQuantities parses every quantity of an object, because the decoder's own error leaves out which
// it was.
func checkQuantities(value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			child, isMap := v[key].(map[string]any)
			err := checkQuantities(v[key])
			if isMap && slices.Contains([]string{"limits", "requests", "hard", "capacity", "allocatable"}, key) {
				err = parseQuantities(child)
			}
			if err != nil {
				return within(key, err)
			}
		}
	case []any:
		for i, item := range v {
			if err := checkQuantities(item); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
	}
	return nil
}

func parseQuantities(quantities map[string]any) error {
	for _, name := range sortedKeys(quantities) {
		switch value := quantities[name].(type) {
		case string, int64, uint64, int, float64:
			if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
				return within(name, fmt.Errorf("%q is not a quantity", fmt.Sprint(value)))
			}
		case nil:
		default:
			return within(name, fmt.Errorf("is %s where a quantity should be", describe(value)))
		}
	}
	return nil
}

// describe names the kind of a decoded value.
func describe(value any) string {
	switch value.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}

// text returns the string at a path, "" when there is none.
func text(object map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	s, _ := object[path[len(path)-1]].(string)
	return s
}

// RequirePods adds a problem when nothing was found that could be a pod and nothing says why.
func (s *Set) RequirePods() {
	if len(s.Pods) > 0 || s.Failed() {
		return
	}
	found := "nothing"
	if len(s.Others) > 0 {
		found = strings.Join(s.Others, ", ")
	}
	s.fail(Source{}, fmt.Errorf("no pod and no pod template in the input: found %s", found))
}
