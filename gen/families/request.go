package families

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
)

// MaxDevices bounds the devices of one container. No node has more; beyond it a number is a mistake.
const MaxDevices = 1024

// Request reads what a container requests; the zero Request if it requests no device. resource returns the family and
// kind of a resource name, family the declaration of a type word.
//
// A missing count is 1: the webhook adds it, and accounting reads older objects the same way. Missing cores are the
// family's default; without memory and percentage it is the whole card.
//
// Errors name the resource and the fix: two families, memory beside a percentage, requests that differ from limits, a
// fraction, a binary suffix, a number out of range.
func Request(
	r *corev1.ResourceRequirements, resource func(corev1.ResourceName) (string, Kind), family func(string) *Family,
) (device.Request, error) {
	var names []corev1.ResourceName
	for name := range r.Limits {
		if _, kind := resource(name); kind != Other {
			names = append(names, name)
		}
	}
	for name, asked := range r.Requests {
		if _, kind := resource(name); kind == Other {
			continue
		}
		limit, ok := r.Limits[name]
		if !ok {
			return device.Request{}, fmt.Errorf("%s is in requests alone: put it in limits", name)
		}
		if limit.Cmp(asked) != 0 {
			return device.Request{}, fmt.Errorf("%s: requests %v differs from limits %v: make them equal or leave it "+
				"out of requests", name, asked.String(), limit.String())
		}
	}
	if len(names) == 0 {
		return device.Request{}, nil
	}
	slices.Sort(names) // so that the message does not depend on the map's order

	word, _ := resource(names[0])
	f := family(word)
	request := device.Request{Family: word, Devices: 1, Cores: f.DefaultCores}
	for _, name := range names {
		other, kind := resource(name)
		if other != word {
			return device.Request{}, fmt.Errorf("%s is of family %s and %s of family %s: a container uses devices of "+
				"one family, leave one out", names[0], word, name, other)
		}
		value, err := f.read(name, kind, r.Limits[name])
		if err != nil {
			return device.Request{}, err
		}
		switch kind {
		case Count:
			request.Devices = int(value)
		case Memory:
			request.MemoryMiB = value * f.MemoryBlockMiB
		case MemoryPercent:
			request.MemoryPercent = value
		case Cores:
			request.Cores = value
		}
	}
	if request.MemoryMiB > 0 && request.MemoryPercent > 0 {
		return device.Request{}, fmt.Errorf("%s and %s are both set: leave one out", f.Memory, f.MemoryPercent)
	}
	return request, nil
}
