package isolation

import (
	"fmt"
	"path/filepath"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

// MPS has NVIDIA's MPS daemon, which must run on the node, hold the container to its share. The names are
// those of CUDA's MPS documentation.
type MPS struct {
	// Dir is the daemon's folder on the node, mounted at the same path in the plugin: pipe/ and shm/.
	Dir string
}

// Mode is the mode's name on the wire.
func (MPS) Mode() device.Mode { return device.MPS }

// Check looks for the daemon's folders.
func (m MPS) Check() error {
	if err := has(m.Dir, true, "start the MPS daemon on the node, or set --mps-dir", "pipe", "shm"); err != nil {
		return fmt.Errorf("--isolation=mps: %w", err)
	}
	return nil
}

// Apply adds the limits and the way to the daemon.
func (m MPS) Apply(answer *pluginapi.ContainerAllocateResponse, c Container) error {
	limits := make([]string, len(c.Shares))
	for i, s := range c.Shares {
		limits[i] = fmt.Sprintf("%d=%dM", i, s.Amount.MemoryMiB)
	}
	answer.Envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = strings.Join(limits, ",")
	if cores := c.Shares[0].Amount.Cores; cores > 0 { // the same on all
		answer.Envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = fmt.Sprint(cores)
	}
	answer.Envs["CUDA_MPS_PIPE_DIRECTORY"] = "/mps/pipe"
	answer.Mounts = append(answer.Mounts,
		&pluginapi.Mount{ContainerPath: "/mps/pipe", HostPath: filepath.Join(m.Dir, "pipe")},
		&pluginapi.Mount{ContainerPath: "/dev/shm", HostPath: filepath.Join(m.Dir, "shm")},
	)
	return nil
}

// Sweep has nothing to remove.
func (MPS) Sweep([]*pluginapi.ContainerAllocateResponse) error { return nil }
