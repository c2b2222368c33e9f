package admission

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// operation is one operation of a JSON patch (RFC 6902). An "add" of an existing member replaces it.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// pointer returns the JSON pointer (RFC 6901) of keys.
func pointer(keys ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, key := range keys {
		b.WriteByte('/')
		b.WriteString(escape.Replace(key))
	}
	return b.String()
}

// addOne returns the operations that give a container one device: in limits, and in requests, which the API server set
// from the limits before it called the webhook. (It does so again afterwards; the patch does not depend on that.)
func addOne(spec *corev1.PodSpec, position int, count corev1.ResourceName) []operation {
	list, index := "initContainers", position
	if inits := len(spec.InitContainers); position >= inits {
		list, index = "containers", position-inits
	}
	r := &kube.Container(spec, position).Resources
	resources := []string{"spec", list, strconv.Itoa(index), "resources"}
	var ops []operation
	for _, m := range []struct {
		name string
		have corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		path := append(resources[:len(resources):len(resources)], m.name)
		if m.have == nil {
			ops = append(ops, operation{"add", pointer(path...), map[corev1.ResourceName]string{count: "1"}})
		} else if _, ok := m.have[count]; !ok {
			ops = append(ops, operation{"add", pointer(append(path, string(count))...), "1"})
		}
	}
	return ops
}
