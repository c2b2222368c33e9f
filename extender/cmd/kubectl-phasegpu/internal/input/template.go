package input

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// template is a pod template within an object.
type template struct {
	path     string         // of the field that holds it
	object   map[string]any // metadata and spec
	replicas int64          // that the field beside it asks for, 0 when there is none
}

// findTemplates returns the pod templates of any object: every field that holds a spec with a list of
// containers, so a new kind of workload needs no code here. Kubernetes' own kinds have it in one place.
func findTemplates(kind string, object map[string]any) []template {
	found := walk(object, "", 0)
	if path := ownTemplate(kind); path != "" {
		found = slices.DeleteFunc(found, func(t template) bool { return t.path != path })
	}
	return found
}

// ownTemplate returns where one of Kubernetes' own kinds has its pod template, "" for all others.
func ownTemplate(kind string) string {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController":
		return "spec.template"
	case "CronJob":
		return "spec.jobTemplate.spec.template"
	case "PodTemplate":
		return "template"
	default:
		return ""
	}
}

// maxDepth is more than twice the depth of any real workload, in fields.
const maxDepth = 40

func walk(object map[string]any, path string, depth int) []template {
	if depth > maxDepth {
		return nil
	}
	var found []template
	for _, key := range sortedKeys(object) {
		at := strings.TrimPrefix(path+"."+key, ".")
		switch child := object[key].(type) {
		case map[string]any:
			if spec, ok := child["spec"].(map[string]any); ok && isContainers(spec["containers"]) {
				found = append(found, template{at, child, replicas(object)})
				continue
			}
			found = append(found, walk(child, at, depth+1)...)
		case []any:
			for i, item := range child {
				if item, ok := item.(map[string]any); ok {
					found = append(found, walk(item, fmt.Sprintf("%s[%d]", at, i), depth+1)...)
				}
			}
		}
	}
	return found
}

// isContainers reports whether a value is a list of containers. An empty list is, so that it is
// refused rather than overlooked.
func isContainers(value any) bool {
	list, ok := value.([]any)
	for _, item := range list {
		if _, isMap := item.(map[string]any); !isMap {
			return false
		}
	}
	return ok
}

// template reads one pod template. The pod is called after its owner, and after its field as well when
// the owner has several.
func (r *reader) template(source Source, kind, namespace, name string, t template, several bool) {
	source.Object += ", " + t.path
	body := map[string]any{"spec": t.object["spec"]}
	if metadata, ok := t.object["metadata"]; ok && metadata != nil {
		body["metadata"] = metadata
	}
	var decoded corev1.PodTemplateSpec
	if !r.typed(source, body, &decoded) {
		return
	}
	if several {
		name += "/" + strings.TrimSuffix(strings.TrimPrefix(t.path, "spec."), ".template")
	}
	pod := &corev1.Pod{ObjectMeta: decoded.ObjectMeta, Spec: decoded.Spec}
	r.pod(source, kind, namespace, name, pod, t.replicas)
}

// withoutTemplate reports an object in which no pod was found: an error for a kind that must have one,
// otherwise just remembered.
func (r *reader) withoutTemplate(source Source, kind string) {
	if path := ownTemplate(kind); path != "" {
		r.Fail(source, errors.New(path+".spec.containers: is missing: no pod template is there"))
	} else if !slices.Contains(r.Others, kind) {
		r.Others = append(r.Others, kind)
	}
}

// replicas returns what an object asks for, 0 when it names none.
func replicas(object map[string]any) int64 {
	switch n := object["replicas"].(type) {
	case int:
		return int64(n)
	case int64:
		return n
	}
	return 0
}
