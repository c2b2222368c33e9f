package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

func share(uuid string, memoryMiB, cores int64) device.Share {
	return device.Share{UUID: uuid, Family: "NVIDIA", Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB,
		Cores: cores}}
}

// folder makes a folder with files, and with folders for names that end in "/".
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What a container is given, as the table in the module's README has it.
func TestApply(t *testing.T) {
	hami, mps := folder(t, "libvgpu.so", "ld.so.preload"), folder(t, "pipe/", "shm/")
	one := []device.Share{share("GPU-a", 3000, 30)}
	two := []device.Share{share("GPU-a", 3000, 0), share("GPU-b", 2000, 0)}
	for name, c := range map[string]struct {
		isolation Isolation
		shares    []device.Share
		cdi       string
		want      []string
	}{
		"none": {None{}, one, "", []string{"NVIDIA_VISIBLE_DEVICES=GPU-a"}},
		"none by CDI": {
			None{}, two, "nvidia.com/gpu",
			[]string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES=void", "cdi nvidia.com/gpu=GPU-a",
				"cdi nvidia.com/gpu=GPU-b"},
		},
		"hami-core": {
			HAMiCore{Dir: hami}, one, "",
			[]string{
				"CUDA_DEVICE_MEMORY_LIMIT_0=3000m", "CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/cache/vgpu.cache",
				"CUDA_DEVICE_SM_LIMIT=30", "NVIDIA_VISIBLE_DEVICES=GPU-a",
				"mount HAMI/libvgpu.so on /usr/local/vgpu/libvgpu.so ro",
				"mount HAMI/ld.so.preload on /etc/ld.so.preload ro",
				"mount HAMI/containers/uid_app_* on /usr/local/vgpu/cache", "mount HAMI/lock on /tmp/vgpulock",
			},
		},
		"hami-core, two cards, oversubscribed": {
			HAMiCore{Dir: hami, Oversubscribe: true}, two, "",
			[]string{
				"CUDA_DEVICE_MEMORY_LIMIT_0=3000m", "CUDA_DEVICE_MEMORY_LIMIT_1=2000m",
				"CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/cache/vgpu.cache",
				"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_DEVICE_SM_LIMIT=0", "CUDA_OVERSUBSCRIBE=true",
				"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b",
				"mount HAMI/libvgpu.so on /usr/local/vgpu/libvgpu.so ro",
				"mount HAMI/ld.so.preload on /etc/ld.so.preload ro",
				"mount HAMI/containers/uid_app_* on /usr/local/vgpu/cache", "mount HAMI/lock on /tmp/vgpulock",
			},
		},
		"mps": {
			MPS{Dir: mps}, one, "",
			[]string{
				"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3000M",
				"CUDA_MPS_PIPE_DIRECTORY=/mps/pipe",
				"NVIDIA_VISIBLE_DEVICES=GPU-a", "mount MPS/pipe on /mps/pipe", "mount MPS/shm on /dev/shm",
			},
		},
		"mps, two cards, no limit of cores": {
			MPS{Dir: mps}, two, "",
			[]string{
				"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3000M,1=2000M",
				"CUDA_MPS_PIPE_DIRECTORY=/mps/pipe",
				"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b", "mount MPS/pipe on /mps/pipe", "mount MPS/shm on /dev/shm",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.isolation.Check(); err != nil {
				t.Fatal(err)
			}
			answer := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{}}
			container := Container{PodUID: "uid", Name: "app", Shares: c.shares}
			Visible(answer, container, c.cdi)
			if err := c.isolation.Apply(answer, container); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, written(answer, hami, mps)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// A cache is the container's alone, and any user can write there.
func TestCacheIsItsOwn(t *testing.T) {
	h := HAMiCore{Dir: folder(t)}
	caches := map[string]bool{}
	for range 2 {
		answer := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{}}
		if err := h.Apply(answer, Container{PodUID: "uid", Name: "app",
			Shares: []device.Share{share("a", 1, 0)}}); err != nil {
			t.Fatal(err)
		}
		for _, m := range answer.Mounts[2:] {
			info, err := os.Stat(m.HostPath)
			if err != nil || info.Mode().Perm() != 0o777 {
				t.Errorf("%s: mode %v, error %v", m.HostPath, info.Mode(), err)
			}
		}
		caches[answer.Mounts[2].HostPath] = true
	}
	if len(caches) != 2 {
		t.Errorf("two answers have the cache %v", caches)
	}
}

func TestSweep(t *testing.T) {
	dir := folder(t, "containers/u1_app_123/vgpu.cache", "containers/u2_app_456/vgpu.cache",
		"containers/u3_app/of-another-plugin", "containers/file")
	live := &pluginapi.ContainerAllocateResponse{Mounts: []*pluginapi.Mount{{HostPath: filepath.Join(dir,
		"containers/u2_app_456")}}}
	if err := (HAMiCore{Dir: dir}).Sweep([]*pluginapi.ContainerAllocateResponse{live}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "containers/*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if diff := cmp.Diff([]string{"file", "u2_app_456", "u3_app"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		isolation Isolation
		says      string
	}{
		"no library":       {HAMiCore{Dir: folder(t, "ld.so.preload")}, "libvgpu.so"},
		"no preload file":  {HAMiCore{Dir: folder(t, "libvgpu.so")}, "ld.so.preload"},
		"a folder instead": {HAMiCore{Dir: folder(t, "libvgpu.so/", "ld.so.preload")}, "is no file"},
		"no daemon":        {MPS{Dir: folder(t, "shm/")}, "MPS daemon"},
		"a file instead":   {MPS{Dir: folder(t, "pipe", "shm/")}, "is no folder"},
	} {
		if err := c.isolation.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.says)
		}
	}
}

// written writes an answer line by line; the random end of a cache's name is a star.
func written(answer *pluginapi.ContainerAllocateResponse, hami, mps string) []string {
	var lines []string
	for k, v := range answer.Envs {
		lines = append(lines, k+"="+v)
	}
	slices.Sort(lines)
	for _, m := range answer.Mounts {
		host := strings.Replace(strings.Replace(m.HostPath, hami, "HAMI", 1), mps, "MPS", 1)
		if before, random, ok := strings.Cut(host, "uid_app_"); ok && random != "" {
			host = before + "uid_app_*"
		}
		line := "mount " + host + " on " + m.ContainerPath
		if m.ReadOnly {
			line += " ro"
		}
		lines = append(lines, line)
	}
	for _, d := range answer.CdiDevices {
		lines = append(lines, "cdi "+d.Name)
	}
	return lines
}
