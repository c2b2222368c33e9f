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
	Audience = "phasegpu-numarefit" // of the token that a caller shows
	Budget   = 2 * time.Second      // from a caller's question to its answer; kubelet waits meanwhile
)

// Bounds of a question. A node has no more devices than a container may ask for.
const (
	MaxAllowed = families.MaxDevices
	MaxName    = 253     // bytes of any name or UUID: the API server's bound for names
	MaxBody    = 1 << 19 // bytes; MaxAllowed of the longest UUIDs fit
)

// Request asks for a container to hold allowed devices only. It is a JSON object without other fields.
type Request struct {
	Pod       Pod       `json:"pod"`
	Node      string    `json:"node"` // the caller's own, to which its token is bound
	Container Container `json:"container"`
	Family    string    `json:"family"`  // type word, e.g. "NVIDIA"
	Allowed   []string  `json:"allowed"` // device UUIDs, in any order
}

// Pod names a pod that was, is or will never be again.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Container names a container of the pod twice: a position alone would follow an edited list.
type Container struct {
	Name     string `json:"name"`
	Position int    `json:"position"` // initContainers first, then containers
}

// Answer tells the devices that the container has from now on, recorded by the API server.
type Answer struct {
	Devices []string `json:"devices"` // UUIDs in the record's order
	Moved   bool     `json:"moved"`   // false when the recorded devices were allowed, and nothing was written
}

// Refusal is why the container's record is as it was.
type Refusal struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // for people: the objects, the numbers, what to do
}

// Error gives the sentence and the reason.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Message, r.Reason) }

func refuse(reason Reason, format string, arguments ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// Check holds a question to its bounds; whether anything of that name exists is not looked at. The error
// names the field.
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
