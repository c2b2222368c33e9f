package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

func TestNode(t *testing.T) {
	n := node(
		nvidiaList, `[{"id":"G1","index":1,"count":10,"devmem":40960,"devcore":100,"type":"A100","numa":1,"mode":"mig","health":true},{"id":"G0","count":10,"devmem":24576,"devcore":100,"type":"P40","health":true}]`,
		dcuList, "D0,4,16384,100,Z100,0,true:D1,4,16384,100,Z100,1,false:",
		"hami.io/node-MR-V100-register", "V0,4,32768,100,MR-V100,0,true:",
		wire.CordonAnnotation, " G0 ,D9",
	)
	n.Spec.Unschedulable = true // kube-scheduler's business
	want := ledger.Node{Name: "node-1", Devices: []device.Device{
		{UUID: "D0", Index: 0, Family: "DCU", Model: "Z100", Capacity: device.Amount{Slots: 4, MemoryMiB: 16384, Cores: 100}, Healthy: true},
		{UUID: "D1", Index: 1, Family: "DCU", Model: "Z100", NUMA: 1, Capacity: device.Amount{Slots: 4, MemoryMiB: 16384, Cores: 100}},
		// Inventories are in MiB, whatever the block of requests. Kubelet has none of these to give.
		{UUID: "V0", Index: 0, Family: "MR-V100", Model: "MR-V100", Capacity: device.Amount{Slots: 4, MemoryMiB: 32768, Cores: 100}},
		{UUID: "G0", Index: 0, Family: "NVIDIA", Model: "P40", Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100}, Healthy: true, Cordoned: true},
		{UUID: "G1", Index: 1, Family: "NVIDIA", Model: "A100", NUMA: 1, Mode: device.MIG, Capacity: device.Amount{Slots: 10, MemoryMiB: 40960, Cores: 100}, Healthy: true},
	}}
	if diff := cmp.Diff(want, kube.Node(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKubeletReports: devices are usable only while kubelet has the family's advertised resources to
// give (a device plugin that is gone leaves an inventory behind).
func TestKubeletReports(t *testing.T) {
	for allocatable, want := range map[string]bool{"10": true, "1": true, "0": false, "": false} {
		n := node(nvidiaList, card("G"))
		delete(n.Status.Allocatable, "nvidia.com/gpu")
		if allocatable != "" {
			n.Status.Allocatable = list("nvidia.com/gpu", allocatable)
		}
		if got := kube.Node(n).Devices[0].Healthy; got != want {
			t.Errorf("allocatable %q: healthy %t, want %t", allocatable, got, want)
		}
	}
}

func TestCambricon(t *testing.T) {
	mlu := func(vcore, vmemory string) *corev1.Node {
		n := node()
		n.Name = "n7"
		n.Status.Capacity = list("cambricon.com/mlu.smlu.vcore", vcore, "cambricon.com/mlu.smlu.vmemory", vmemory)
		n.Status.Allocatable = n.Status.Capacity
		return n
	}
	got := kube.Node(mlu("250", "193"))
	amount := device.Amount{Slots: 100, MemoryMiB: 193 * 256 / 2, Cores: 100}
	want := ledger.Node{Name: "n7", Devices: []device.Device{
		{UUID: "n7-cambricon-mlu-0", Family: "MLU", Model: "MLU", Capacity: amount, Healthy: true},
		{UUID: "n7-cambricon-mlu-1", Index: 1, Family: "MLU", Model: "MLU", Capacity: amount, Healthy: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	half := mlu("200", "192")
	half.Status.Allocatable = list("cambricon.com/mlu.smlu.vcore", "200")
	if d := kube.Node(half).Devices; len(d) != 2 || d[0].Healthy {
		t.Errorf("without allocatable memory the cards are %+v, want unhealthy ones", d)
	}
	for _, test := range []struct{ vcore, vmemory, want string }{
		{"99", "192", ""},
		{"0", "0", ""},
		{"-100", "192", "capacity of cambricon.com/mlu.smlu.vcore: cambricon.com/mlu.smlu.vcore: -100 is no whole number"},
		{"100", "1.5", "cambricon.com/mlu.smlu.vmemory: 1500m is no whole number"},
		{"100", "32769", "32769 blocks of 256 MiB on 1 cards are more than 8388608 MiB each"},
		{"200000000000", "1", "2000000000 cards are more than 1024"},
		{"100", "99999999999999999999", "is no whole number"},
	} {
		got := kube.Node(mlu(test.vcore, test.vmemory))
		if len(got.Devices) != 0 || test.want == "" && got.Unreadable != "" || !strings.Contains(got.Unreadable, test.want) {
			t.Errorf("vcore %s, vmemory %s: got %+v, want no device and %q", test.vcore, test.vmemory, got, test.want)
		}
	}
}

// TestBadInventory: the node is unreadable and says where; its other families stay listed.
func TestBadInventory(t *testing.T) {
	for _, test := range []struct {
		name, nvidia, dcu string
		devices           int
		want              []string
	}{
		{"garbage", "garbage", "D0,4,16384,100,Z100,0,true:", 1, []string{"annotation " + nvidiaList}},
		{"truncated", card("G")[:40], "D0,4,16384,100,Z100,0,true:", 1, []string{"annotation " + nvidiaList}},
		{"both", "[", "x", 0, []string{"annotation " + nvidiaList, "annotation " + dcuList}},
		{"empty", "", "D0,4,16384,100,Z100,0,true:", 1, []string{"annotation " + nvidiaList}},
		{"one UUID in two families", card("D0"), "D0,4,16384,100,Z100,0,true:", 1,
			[]string{"annotation " + nvidiaList, "device D0 is also in annotation " + dcuList}},
		{"twice in one", `[{"id":"G"},{"id":"G"}]`, "D0,4,16384,100,Z100,0,true:", 1, []string{"annotation " + nvidiaList, "G"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := kube.Node(node(nvidiaList, test.nvidia, dcuList, test.dcu))
			if len(got.Devices) != test.devices {
				t.Errorf("%d devices are listed, want %d: %+v", len(got.Devices), test.devices, got.Devices)
			}
			for _, part := range test.want {
				if !strings.Contains(got.Unreadable, part) {
					t.Errorf("unreadable because %q, want %q named", got.Unreadable, part)
				}
			}
		})
	}
	if got := kube.Node(node(nvidiaList, "[]")); got.Unreadable != "" || len(got.Devices) != 0 {
		t.Errorf("an empty list gives %+v, want a readable node without devices", got)
	}
}
