// Package input reads Kubernetes objects from files: pods, whatever has a pod template, nodes and
// quotas. What cannot be read is a problem that names its place, and loses nothing else.
//
// Names of inputs and directories mean what they mean to kubectl. Their content is decoded here and not by kubectl's
// resource builder, which ends a file at its first bad document and a list at its first bad item, takes the last of two
// equal keys, knows neither lines nor a bound, and reads the process's own standard input.
package input

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Source is the place of an object, for messages.
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

// Warning is a warning about an object.
func Warning(object string, err error) Problem {
	return Problem{Source{Object: object}, err, true}
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
	Replicas int64  // of a template, 0 when its owner names none
}

// Title is the name of the pod in reports.
func (p *Pod) Title() string {
	title := fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name)
	switch {
	case p.Kind == "Pod":
		return title
	case p.Replicas > 1:
		return title + fmt.Sprintf(", one of %d replicas", p.Replicas)
	default:
		return title + ", a pod of its template"
	}
}

// Set is what an input holds. Everything is in input order.
type Set struct {
	Pods     []Pod
	Nodes    []*corev1.Node
	Quotas   []*corev1.ResourceQuota
	Problems []Problem
	Others   []string // kinds of the objects that hold no pod, each once
}

// AddNode adds a node of a cluster.
func (s *Set) AddNode(node *corev1.Node) { s.Nodes = append(s.Nodes, node) }

// AddPod adds a pod of a cluster.
func (s *Set) AddPod(pod *corev1.Pod) {
	s.Pods = append(s.Pods, Pod{Pod: pod, Source: Source{Object: "Pod " + pod.Namespace + "/" + pod.Name}, Kind: "Pod"})
}

// AddQuota adds a quota of a cluster.
func (s *Set) AddQuota(quota *corev1.ResourceQuota) { s.Quotas = append(s.Quotas, quota) }

// Fail adds an error.
func (s *Set) Fail(source Source, err error) {
	s.Problems = append(s.Problems, Problem{Source: source, Err: err})
}

// Warn adds a warning about an object.
func (s *Set) Warn(object string, err error) { s.Problems = append(s.Problems, Warning(object, err)) }

// Failed reports whether any problem is more than a warning.
func (s *Set) Failed() bool {
	return slices.ContainsFunc(s.Problems, func(p Problem) bool { return !p.Warning })
}

// RequirePods adds a problem when nothing was found that could be a pod and no problem explains that.
func (s *Set) RequirePods() {
	if len(s.Pods) > 0 || s.Failed() {
		return
	}
	found := "nothing"
	if len(s.Others) > 0 {
		found = strings.Join(s.Others, ", ")
	}
	s.Fail(Source{}, fmt.Errorf("no pod and no pod template in the input: found %s", found))
}
