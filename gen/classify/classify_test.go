package classify_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

func limits(pairs ...string) *corev1.ResourceRequirements {
	r := &corev1.ResourceRequirements{}
	for i := 0; i < len(pairs); i += 2 {
		set(&r.Limits, pairs[i], pairs[i+1])
	}
	return r
}

func TestRequest(t *testing.T) {
	for _, test := range []struct {
		name string
		in   *corev1.ResourceRequirements
		want device.Request
	}{
		{"nothing", limits(), device.Request{}},
		{"CPU only", limits("cpu", "1", "memory", "16Gi"), device.Request{}},
		{"all of NVIDIA", limits("nvidia.com/gpu", "2", "nvidia.com/gpumem", "2048", "nvidia.com/gpucores", "30"),
			device.Request{Family: "NVIDIA", Devices: 2, MemoryMiB: 2048, Cores: 30}},
		{"a percentage", limits("nvidia.com/gpu", "1", "nvidia.com/gpumem-percentage", "50"),
			device.Request{Family: "NVIDIA", Devices: 1, MemoryPercent: 50}},
		{"the whole card", limits("nvidia.com/gpu", "1"), device.Request{Family: "NVIDIA", Devices: 1}},
		{"a missing count is one", limits("nvidia.com/gpumem", "1000"), device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: 1000}},
		{"the API server's spelling of 4000", limits("nvidia.com/gpumem", "4k"), device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: 4000}},
		{"blocks become MiB once", limits("iluvatar.ai/MR-V100-vgpu", "1", "iluvatar.ai/MR-V100.vMem", "64"),
			device.Request{Family: "MR-V100", Devices: 1, MemoryMiB: 16384}},
		{"a family's default cores", limits("cambricon.com/vmlu", "1", "cambricon.com/mlu.smlu.vmemory", "4"),
			device.Request{Family: "MLU", Devices: 1, MemoryMiB: 1024, Cores: 100}},
		{"cores against the default", limits("cambricon.com/vmlu", "1", "cambricon.com/mlu.smlu.vcore", "0"),
			device.Request{Family: "MLU", Devices: 1}},
		{"the largest memory", limits("nvidia.com/gpumem", "8388608"), device.Request{Family: "NVIDIA", Devices: 1, MemoryMiB: device.MaxMemoryMiB}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := classify.Request(test.in)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

// TestRequestErrors: each error names the resource, what was written, and what to write.
func TestRequestErrors(t *testing.T) {
	differ := limits("nvidia.com/gpu", "1")
	set(&differ.Requests, "nvidia.com/gpu", "2")
	alone := &corev1.ResourceRequirements{}
	set(&alone.Requests, "nvidia.com/gpumem", "1000")
	for _, test := range []struct {
		name string
		in   *corev1.ResourceRequirements
		want string
	}{
		{"binary suffix", limits("nvidia.com/gpumem", "16Gi"), "nvidia.com/gpumem: 16Gi means 17179869184 bytes: write 16384 (MiB)"},
		{"binary suffix in blocks", limits("iluvatar.ai/BI-V150.vMem", "16Gi"), "iluvatar.ai/BI-V150.vMem: 16Gi means 17179869184 bytes: write 64 (blocks of 256 MiB)"},
		{"binary suffix on a count", limits("nvidia.com/gpu", "1Ki"), "nvidia.com/gpu: 1Ki means 1024 bytes: write a whole number without suffix"},
		{"absurd binary suffix", limits("nvidia.com/gpumem", "4Ei"), "nvidia.com/gpumem: 4Ei means 4611686018427387904 bytes: write a whole number without suffix (MiB)"},
		{"bytes as MiB", limits("nvidia.com/gpumem", "2147483648"), "nvidia.com/gpumem: 2147483648 is too large: write at most 8388608 (MiB)"},
		{"too many blocks", limits("cambricon.com/mlu.smlu.vmemory", "32769"), "cambricon.com/mlu.smlu.vmemory: 32769 is too large: write at most 32768 (blocks of 256 MiB)"},
		{"overflow", limits("nvidia.com/gpumem", "9223372036854775808"), "nvidia.com/gpumem: 9223372036854775808 is too large: write at most 8388608 (MiB)"},
		{"negative", limits("nvidia.com/gpumem", "-1"), "nvidia.com/gpumem: -1 is negative: write a whole number of at least 1"},
		{"negative overflow", limits("nvidia.com/gpumem", "-9223372036854775809"), "nvidia.com/gpumem: -9223372036854775809 is negative: write a whole number of at least 1"},
		{"fraction", limits("nvidia.com/gpumem", "1.5"), "nvidia.com/gpumem: 1500m is a fraction: write a whole number"},
		{"fraction of a percent", limits("nvidia.com/gpumem-percentage", "99.1"), "nvidia.com/gpumem-percentage: 99100m is a fraction: write a whole number"},
		{"percentage 0", limits("nvidia.com/gpumem-percentage", "0"), "nvidia.com/gpumem-percentage: 0 is too small: write at least 1, or leave it out for the whole card"},
		{"percentage 101", limits("nvidia.com/gpumem-percentage", "101"), "nvidia.com/gpumem-percentage: 101 is too large: write at most 100"},
		{"cores 101", limits("nvidia.com/gpucores", "101"), "nvidia.com/gpucores: 101 is too large: write at most 100"},
		{"memory 0", limits("nvidia.com/gpumem", "0"), "nvidia.com/gpumem: 0 is too small: write at least 1, or leave it out for the whole card"},
		{"count 0", limits("nvidia.com/gpu", "0"), "nvidia.com/gpu: 0 is too small: write at least 1, or leave all of the family's resources out for no device"},
		{"count 2000", limits("nvidia.com/gpu", "2000"), "nvidia.com/gpu: 2k is too large: write at most 1024"},
		{"MiB and percent", limits("nvidia.com/gpumem", "1", "nvidia.com/gpumem-percentage", "1"), "nvidia.com/gpumem and nvidia.com/gpumem-percentage are both set: leave one out"},
		{"two families", limits("nvidia.com/gpu", "1", "amd.com/gpumem", "5"), "amd.com/gpumem is of family AMD and nvidia.com/gpu of family NVIDIA: a container uses devices of one family, leave one out"},
		{"requests alone", alone, "nvidia.com/gpumem is in requests alone: put it in limits"},
		{"requests differ", differ, "nvidia.com/gpu: requests 2 differs from limits 1: make them equal or leave it out of requests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := classify.Request(test.in)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %+v and error\n%v, want\n%s", got, err, test.want)
			}
			if got != (device.Request{}) {
				t.Errorf("the refused request still says %+v", got)
			}
		})
	}
}

// TestExactNames: no name is matched by a part of it or in another case.
func TestExactNames(t *testing.T) {
	known := map[string]bool{}
	for _, f := range classify.Families() {
		for _, name := range f.Resources() {
			known[string(name)] = true
		}
		known[f.PodAnnotation] = true
		known[f.Word] = true
	}
	for name := range known {
		for _, other := range []string{name + "x", "x" + name, strings.ToUpper(name), name[1:], name[:len(name)-1], name + " ", ""} {
			if known[other] {
				continue
			}
			if word, kind := classify.Resource(corev1.ResourceName(other)); word != "" || kind != families.Other {
				t.Errorf("resource %q is taken for %s's", other, word)
			}
			if word := classify.Allocation(other); word != "" {
				t.Errorf("annotation %q is taken for %s's", other, word)
			}
			if f := classify.Family(other); f != nil {
				t.Errorf("word %q is taken for %s", other, f.Word)
			}
		}
	}
}

func TestNothingAskedNothingAllocated(t *testing.T) {
	r := limits("cpu", "1", "memory", "1Gi", "example.com/fpga", "1")
	r.Requests = r.Limits
	if n := testing.AllocsPerRun(100, func() {
		if classify.Asks(r) {
			t.Fatal("asks")
		}
		if _, err := classify.Request(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a container without devices costs %v allocations, want 0", n)
	}
	with := limits("nvidia.com/gpu", "1")
	if n := testing.AllocsPerRun(100, func() { classify.Asks(with) }); n != 0 {
		t.Errorf("Asks allocates %v times, want 0", n)
	}
}

// TestValuesAreCopies: a caller that changes what it got changes nothing for others.
func TestValuesAreCopies(t *testing.T) {
	all := classify.Families()
	all[0].Advertised[0] = "changed"
	classify.Family("NVIDIA").Advertised[0] = "changed"
	for _, f := range classify.Families() {
		if slices.Contains(f.Advertised, "changed") || !slices.Equal(classify.Family(f.Word).Advertised, f.Advertised) {
			t.Errorf("family %s was changed by a reader: %v", f.Word, f.Advertised)
		}
	}
}

func TestManagedResources(t *testing.T) {
	visible := map[corev1.ResourceName]bool{}
	for _, r := range classify.ManagedResources() {
		if !r.IgnoredByScheduler {
			visible[r.Name] = true
		}
	}
	for name, want := range map[corev1.ResourceName]bool{
		"nvidia.com/gpu": true, "nvidia.com/gpumem": false, "nvidia.com/gpumem-percentage": false, "nvidia.com/gpucores": false,
		"cambricon.com/vmlu": false, "cambricon.com/mlu.smlu.vcore": true, "cambricon.com/mlu.smlu.vmemory": true,
	} {
		if visible[name] != want {
			t.Errorf("%s is visible to kube-scheduler: %t, want %t", name, visible[name], want)
		}
	}
}

func TestLimitOfQuota(t *testing.T) {
	mlu := classify.Family("MLU")
	for _, test := range []struct {
		q    string
		want int64
		err  string
	}{
		{"0", 0, ""},
		{"40k", 40000 * 256, ""},
		{"16Gi", 0, "write 64 (blocks of 256 MiB)"},
		{"-1", 0, "negative"},
		{"0.5", 0, "fraction"},
		{"36028797018963967", 36028797018963967 * 256, ""},
		{"36028797018963968", 0, "too large"},
	} {
		got, err := mlu.Limit(mlu.Memory, families.Memory, resource.MustParse(test.q))
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%s: got %d, %v; want %d", test.q, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: got %d, %v; want an error with %q", test.q, got, err, test.err)
		}
	}
}
