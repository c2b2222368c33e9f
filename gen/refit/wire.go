package refit

import (
	"errors"
	"fmt"
	"time"

	"github.com/phasegpu/phasegpu/gen/families"
)

// The service's names and numbers (design, section 10).
const (
	Path     = "/v1/refit"
	Audience = "phasegpu-numarefit" // of a caller's token
	Budget   = 2 * time.Second      // for one request, as its caller sees it; kubelet waits for that long
)

// Bounds of a request. A node has no more devices than a container may ask for.
const (
	MaxAllowed = families.MaxDevices
	MaxName    = 253     // bytes of a name or UUID, as in the API server
	MaxBody    = 1 << 19 // bytes; MaxAllowed of the longest UUIDs fit
)

// Request asks that a container hold allowed devices only.
type Request struct {
	Pod       Pod       `json:"pod"`
	Node      string    `json:"node"` // the caller's node, to which its token is bound
	Container Container `json:"container"`
	Family    string    `json:"family"`  // type word, e.g. "NVIDIA"
	Allowed   []string  `json:"allowed"` // device UUIDs, in any order
}

// Pod identifies a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Container identifies a container of the pod. Name and position must agree.
type Container struct {
	Name     string `json:"name"`
	Position int    `json:"position"` // initContainers first, then containers
}

// Response is the body of a response: either an answer or a refusal.
type Response struct {
	*Answer
	*Refusal
}

// Answer gives the devices that the container has now, as recorded.
type Answer struct {
	Devices []string `json:"devices"` // UUIDs, in the record's order
	Moved   bool     `json:"moved"`   // false if the recorded devices were allowed, so that nothing was written
}

// Refusal says why the container's record has not changed.
type Refusal struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // names the objects, the numbers and the fix
}

// Error gives the message and the reason.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Message, r.Reason) }

// Refuse returns a refusal.
func Refuse(reason Reason, format string, arguments ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// Check reports whether the request is within its bounds. The error names the field.
func (r *Request) Check() error {
	for _, field := range []struct{ name, value string }{
		{"pod.namespace", r.Pod.Namespace}, {"pod.name", r.Pod.Name}, {"pod.uid", r.Pod.UID},
		{"node", r.Node}, {"container.name", r.Container.Name}, {"family", r.Family},
	} {
		if field.value == "" || len(field.value) > MaxName {
			return fmt.Errorf("%s has %d bytes: 1 to %d are accepted", field.name, len(field.value), MaxName)
		}
	}
	switch {
	case r.Container.Position < 0:
		return fmt.Errorf("container.position is %d: positions count from 0", r.Container.Position)
	case len(r.Allowed) == 0:
		return errors.New("allowed is empty: name the devices that kubelet allows")
	case len(r.Allowed) > MaxAllowed:
		return fmt.Errorf("allowed lists %d devices, more than %d", len(r.Allowed), MaxAllowed)
	}
	for i, uuid := range r.Allowed {
		if uuid == "" || len(uuid) > MaxName {
			return fmt.Errorf("allowed[%d] has %d bytes: 1 to %d are accepted", i, len(uuid), MaxName)
		}
	}
	return nil
}
