package kind_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/kind"
)

// What the device plugin's README says of isolation hami-core.
func TestRecorded(t *testing.T) {
	devices := []device.Device{{UUID: "GPU-b"}, {UUID: "GPU-a"}, {UUID: "GPU-c"}}
	share := func(uuid string, memoryMiB, cores int64) device.Share {
		return device.Share{UUID: uuid, Family: "NVIDIA",
			Amount: device.Amount{Slots: 1, MemoryMiB: memoryMiB, Cores: cores}}
	}
	tests := []struct {
		name   string
		shares []device.Share
		want   map[string]string
	}{
		{name: "no device", want: map[string]string{}},
		{
			name:   "one",
			shares: []device.Share{share("GPU-c", 100, 0)},
			want: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-c", "CUDA_DEVICE_MEMORY_LIMIT_0": "100m",
				"CUDA_DEVICE_SM_LIMIT": "0"},
		},
		{
			name:   "two, in the order of the inventory",
			shares: []device.Share{share("GPU-a", 100, 30), share("GPU-b", 200, 30)},
			want: map[string]string{
				"NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-a", "CUDA_DEVICE_MEMORY_LIMIT_0": "200m",
				"CUDA_DEVICE_MEMORY_LIMIT_1": "100m", "CUDA_DEVICE_SM_LIMIT": "30",
			},
		},
		{
			name:   "one that the node does not list is not forgotten",
			shares: []device.Share{share("GPU-a", 100, 30), share("GPU-x", 200, 30)},
			want: map[string]string{
				"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-x", "CUDA_DEVICE_MEMORY_LIMIT_0": "100m",
				"CUDA_DEVICE_MEMORY_LIMIT_1": "200m", "CUDA_DEVICE_SM_LIMIT": "30",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, kind.Recorded(test.shares, devices)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGranted(t *testing.T) {
	got := kind.Granted(map[string]string{
		"PATH": "/usr/bin", "NVIDIA_VISIBLE_DEVICES": "GPU-a", "CUDA_DEVICE_MEMORY_LIMIT_0": "100m",
		"CUDA_DEVICE_SM_LIMIT": "0", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/x", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
	})
	want := map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-a", "CUDA_DEVICE_MEMORY_LIMIT_0": "100m",
		"CUDA_DEVICE_SM_LIMIT": "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
