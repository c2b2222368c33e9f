package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

const (
	// inContainer is where libvgpu.so and its preload file expect the library, in every container.
	inContainer = "/usr/local/vgpu"
	// lockDir is where libvgpu.so keeps the lock that its start takes on the whole node.
	lockDir = "/tmp/vgpulock"
)

// HAMiCore has libvgpu.so, preloaded into every process of the container, refuse memory beyond the limit
// and slow down kernels. The names are those which the library reads (HAMi-core's public interface).
type HAMiCore struct {
	// Dir is the folder on the node, mounted at the same path in the plugin, with libvgpu.so and
	// ld.so.preload. The plugin makes containers/ and lock/ in it.
	Dir string
	// Oversubscribe lets the library move device memory to the host when there is more limit than memory.
	Oversubscribe bool
}

// Mode is the mode's name on the wire.
func (HAMiCore) Mode() device.Mode { return device.HAMiCore }

// Check looks for the library and its preload file.
func (h HAMiCore) Check() error {
	if err := has(h.Dir, false, "install HAMi-core on the node, or set --hami-core-dir", "libvgpu.so",
		"ld.so.preload"); err != nil {
		return fmt.Errorf("--isolation=hami-core: %w", err)
	}
	return nil
}

// Apply adds the limits, the library, and a folder for the shared cache that no other container has.
func (h HAMiCore) Apply(answer *pluginapi.ContainerAllocateResponse, c Container) error {
	cache, err := h.cache(c)
	if err != nil {
		return err
	}
	lock := filepath.Join(h.Dir, "lock")
	if err := open(lock); err != nil {
		return err
	}
	for i, s := range c.Shares {
		answer.Envs[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", i)] = fmt.Sprintf("%dm", s.Amount.MemoryMiB)
	}
	answer.Envs["CUDA_DEVICE_SM_LIMIT"] = fmt.Sprint(c.Shares[0].Amount.Cores) // the same on all; 0 is no limit
	answer.Envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = filepath.Join(inContainer, "cache", "vgpu.cache")
	if h.Oversubscribe {
		answer.Envs["CUDA_OVERSUBSCRIBE"] = "true"
	}
	answer.Mounts = append(answer.Mounts,
		&pluginapi.Mount{ContainerPath: filepath.Join(inContainer, "libvgpu.so"),
			HostPath: filepath.Join(h.Dir, "libvgpu.so"), ReadOnly: true},
		&pluginapi.Mount{ContainerPath: "/etc/ld.so.preload", HostPath: filepath.Join(h.Dir, "ld.so.preload"),
			ReadOnly: true},
		&pluginapi.Mount{ContainerPath: filepath.Join(inContainer, "cache"), HostPath: cache},
		&pluginapi.Mount{ContainerPath: lockDir, HostPath: lock},
	)
	return nil
}

// cache makes the folder of a container's shared cache. Its name begins as HAMi's monitor expects; the
// random end keeps apart what is served twice for one container of a pod, when the first went astray.
func (h HAMiCore) cache(c Container) (string, error) {
	parent := filepath.Join(h.Dir, "containers")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("shared cache: %w", err)
	}
	dir, err := os.MkdirTemp(parent, c.PodUID+"_"+c.Name+"_")
	if err != nil {
		return "", fmt.Errorf("shared cache: %w", err)
	}
	return dir, open(dir)
}

// open makes a folder that any user may write to.
func open(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) // whatever the umask
}

// Sweep removes the shared caches that no live answer mounts. The folders of other plugins, whose names
// have no random end, stay.
func (h HAMiCore) Sweep(live []*pluginapi.ContainerAllocateResponse) error {
	mounted := map[string]bool{}
	for _, answer := range live {
		for _, m := range answer.Mounts {
			mounted[m.HostPath] = true
		}
	}
	dirs, err := filepath.Glob(filepath.Join(h.Dir, "containers", "*_*_*"))
	if err != nil {
		return fmt.Errorf("--hami-core-dir: %w", err)
	}
	var failed []error
	for _, dir := range dirs {
		if !mounted[dir] && strings.Count(filepath.Base(dir), "_") == 2 {
			failed = append(failed, os.RemoveAll(dir))
		}
	}
	return errors.Join(failed...)
}
