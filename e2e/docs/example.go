package docs

import (
	"bytes"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// CardMiB is the memory of the card that the worked example shares.
const CardMiB = 24576

// Example is a pod on one card, worked out: all memory in MiB.
type Example struct {
	Names   []string  // of the containers, by position
	Classes phase.Pod // by position
	Memory  []int64   // by position
	Sum     int64     // of all containers
	Phases  []Phase
}

// Phase is one phase of an Example.
type Phase struct {
	Name     string
	Uses     int64 // by the containers alive in it
	Reserved int64 // while it and all after it remain
}

// Peak is what the pod reserves before its first init container has completed.
func (e *Example) Peak() int64 { return e.Phases[0].Reserved }

// Steady is what the pod reserves once all init containers have completed.
func (e *Example) Steady() int64 { return e.Phases[len(e.Phases)-1].Reserved }

// ReadExample works out the pod of a Deployment whose containers all ask for MiB of one device.
func ReadExample(path string) (*Example, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), &d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec := &d.Spec.Template.Spec
	requests, err := kube.Requests(spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e := &Example{Classes: kube.Classes(spec)}
	for position, r := range requests {
		if r.Devices != 1 || r.MemoryMiB == 0 {
			return nil, fmt.Errorf("%s: container %d asks for %+v, want MiB of one device", path, position, r)
		}
		e.Names = append(e.Names, kube.Container(spec, position).Name)
		e.Memory = append(e.Memory, r.MemoryMiB)
		e.Sum += r.MemoryMiB
	}
	for k := range e.Classes.Len() {
		p := Phase{Name: "steady"}
		if position := e.Classes.InitPosition(k); position >= 0 {
			p.Name = e.Names[position]
		}
		for position, memory := range e.Memory {
			if e.Classes.Alive(k, position) {
				p.Uses += memory
			}
		}
		reserved, err := e.Classes.Fold(k, func(position int) device.Amount {
			return device.Amount{MemoryMiB: e.Memory[position]}
		})
		if err != nil {
			return nil, err
		}
		p.Reserved = reserved.MemoryMiB
		e.Phases = append(e.Phases, p)
	}
	return e, nil
}
