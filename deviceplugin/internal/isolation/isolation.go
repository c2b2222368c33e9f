// Package isolation says what a container is given so that it sees its devices and keeps to its share of
// them. README.md of the module has the whole table.
package isolation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

// Container is one container's part of a pod's record.
type Container struct {
	PodUID string
	Name   string
	Shares []device.Share // in the order of the inventory: the order in which the container sees its devices
}

// Isolation is a way to hold containers to their shares.
type Isolation interface {
	// Mode is how the node's devices are published.
	Mode() device.Mode
	// Check says what the node lacks for it, or nil.
	Check() error
	// Apply adds to an answer what holds the container to its shares.
	Apply(answer *pluginapi.ContainerAllocateResponse, c Container) error
	// Sweep removes what earlier answers left behind, but for the mounts of those that still matter.
	Sweep(live []*pluginapi.ContainerAllocateResponse) error
}

// Visible adds to an answer which devices the container sees: by the NVIDIA container runtime's
// environment, or by CDI names of a kind ("nvidia.com/gpu"; empty for the environment).
func Visible(answer *pluginapi.ContainerAllocateResponse, c Container, cdiKind string) {
	uuids := make([]string, len(c.Shares))
	for i, s := range c.Shares {
		uuids[i] = s.UUID
	}
	if len(uuids) > 1 {
		// Limits go by CUDA's numbers, which otherwise begin with the fastest card.
		answer.Envs["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	}
	if cdiKind == "" {
		answer.Envs["NVIDIA_VISIBLE_DEVICES"] = strings.Join(uuids, ",")
		return
	}
	for _, uuid := range uuids {
		answer.CdiDevices = append(answer.CdiDevices, &pluginapi.CDIDevice{Name: cdiKind + "=" + uuid})
	}
	// CUDA images ask for "all", which an NVIDIA runtime would grant beside CDI.
	answer.Envs["NVIDIA_VISIBLE_DEVICES"] = "void"
}

// Sort puts shares into the order of the devices. A share of a device that is not among them is an error.
func Sort(shares []device.Share, devices []device.Device) ([]device.Share, error) {
	place := make(map[string]int, len(devices))
	for i, d := range devices {
		place[d.UUID] = i
	}
	for _, s := range shares {
		if _, ok := place[s.UUID]; !ok {
			return nil, fmt.Errorf("device %s is not in this node's inventory", s.UUID)
		}
	}
	shares = slices.Clone(shares)
	slices.SortFunc(shares, func(a, b device.Share) int { return cmp.Compare(place[a.UUID], place[b.UUID]) })
	return shares, nil
}

// has looks for files or folders of a folder on the node. The error ends with what to do.
func has(dir string, folders bool, do string, names ...string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s", err, do)
		case folders && !info.IsDir():
			return fmt.Errorf("%s is no folder: %s", path, do)
		case !folders && !info.Mode().IsRegular():
			return fmt.Errorf("%s is no file: %s", path, do)
		}
	}
	return nil
}

// None holds containers to nothing: they see their devices and may use them whole.
type None struct{}

// Mode is hami-core's, because the wire format has no name for this one.
func (None) Mode() device.Mode { return device.HAMiCore }

// Check finds nothing missing.
func (None) Check() error { return nil }

// Apply adds nothing.
func (None) Apply(*pluginapi.ContainerAllocateResponse, Container) error { return nil }

// Sweep has nothing to remove.
func (None) Sweep([]*pluginapi.ContainerAllocateResponse) error { return nil }
