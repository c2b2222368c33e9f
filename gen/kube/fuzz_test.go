package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// FuzzNode: whatever the inventories, the cordon and the capacity say, nothing panics, and a device is
// listed once and with amounts that a card can have.
func FuzzNode(f *testing.F) {
	f.Add(card("G"), "D0,4,16384,100,Z100,0,true:", "G,D0", "200", "192")
	f.Add("[{", "D0,4,16384", ",,", "-1", "1.5")
	f.Add(card("D0"), "D0,4,16384,100,Z100,0,true:", "", "99999999999999999999", "1")
	f.Fuzz(func(t *testing.T, nvidia, dcu, cordon, vcore, vmemory string) {
		n := node(nvidiaList, nvidia, dcuList, dcu, wire.CordonAnnotation, cordon)
		for name, text := range map[corev1.ResourceName]string{"cambricon.com/mlu.smlu.vcore": vcore, "cambricon.com/mlu.smlu.vmemory": vmemory} {
			if q, err := resource.ParseQuantity(text); err == nil {
				n.Status.Capacity[name], n.Status.Allocatable[name] = q, q
			}
		}
		got := kube.Node(n)
		seen := map[string]bool{}
		for _, d := range got.Devices {
			if d.UUID == "" || seen[d.UUID] {
				t.Errorf("device %q is listed twice or has no UUID", d.UUID)
			}
			seen[d.UUID] = true
			if d.Capacity.MemoryMiB < 0 || d.Capacity.Cores < 0 || d.Capacity.Slots < 0 {
				t.Errorf("device %+v has a negative capacity", d)
			}
		}
		ledger.New().SetNode(got)
	})
}

// FuzzQuota: every line that is about a family's memory or cores becomes a limit, never a negative one;
// without an error it is exactly what was written.
func FuzzQuota(f *testing.F) {
	f.Add("limits.nvidia.com/gpumem", "24576")
	f.Add("requests.cambricon.com/mlu.smlu.vmemory", "16Gi")
	f.Add("limits.nvidia.com/gpucores", "9223372036854775808")
	f.Add("limits.nvidia.com/gpucores", "-0.5")
	f.Fuzz(func(t *testing.T, key, text string) {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		object := quota("q")
		object.Spec.Hard = corev1.ResourceList{corev1.ResourceName(key): q}
		got, err := kube.Quota(object)
		for _, limit := range got.Limits {
			if limit.Max < 0 || limit.Resource != key {
				t.Errorf("%s: %s became %+v", key, text, limit)
			}
			if err == nil && q.Sign() > 0 && limit.Max == 0 || err != nil && limit.Max != 0 {
				t.Errorf("%s: %s became %+v with error %v", key, text, limit, err)
			}
		}
		if err != nil && (len(got.Limits) != 1 || !strings.Contains(err.Error(), key)) {
			t.Errorf("%s: %s gives limits %v and error %v", key, text, got.Limits, err)
		}
	})
}

// FuzzPod: whatever a pod's annotations, quantities, names and statuses say, nothing panics; a record
// that can be read is as long as the pod and survives being written; and the book takes it.
func FuzzPod(f *testing.F) {
	f.Add("G,NVIDIA,5,0:;;", ";A,AMD,1,100:;", "hold", "spread", "16Gi", `{"phase":"Running","containerStatuses":[{"name":"a","state":{"running":{}}}]}`)
	f.Add("G0,abc,;", "", " never", "", "-1", `{"initContainerStatuses":[{"name":"i"},{"name":"i"},{}],"conditions":[{"type":"PodReadyToStartContainers","status":"True"}]}`)
	f.Fuzz(func(t *testing.T, nvidia, amd, release, policy, quantity, status string) {
		pod := bound("p", containers{container("i")}, containers{container("a")},
			nvidiaRecord, nvidia, amdRecord, amd, wire.ReleaseAnnotation, release, wire.NodePolicyAnnotation, policy,
			wire.NUMAAlignment, policy, wire.NUMABindAnnotation, policy, wire.UseUUIDAnnotation, nvidia)
		if q, err := resource.ParseQuantity(quantity); err == nil {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpumem": q, "nvidia.com/gpu": q}
		}
		_ = json.Unmarshal([]byte(status), &pod.Status) // as far as it goes
		truth := kube.LedgerPod(pod, phase.PerInit)
		if truth.Unreadable != "" && truth.Allocation != nil {
			t.Errorf("an unreadable record was read as %v", truth.Allocation)
		}
		if truth.Allocation != nil {
			if len(truth.Allocation) != 2 {
				t.Errorf("the record has %d entries for 2 containers", len(truth.Allocation))
			}
			again := bound("p", pod.Spec.InitContainers, pod.Spec.Containers)
			again.Annotations = kube.AllocationAnnotations(truth.Allocation)
			back, err := kube.Allocation(again)
			if err != nil || back[0] == nil != (truth.Allocation[0] == nil) || len(back[1]) != len(truth.Allocation[1]) {
				t.Errorf("%v was written as %v and read back as %v, %v", truth.Allocation, again.Annotations, back, err)
			}
		}
		book := ledger.New()
		book.Observe(truth)
		if _, err := book.Remove(truth.UID); err != nil {
			t.Error(err)
		}
		if placed, err := kube.PlacementPod(pod, placement.Binpack, placement.Binpack); err == nil {
			if _, _, err := kube.Charges(placed.Classes, placed.Requests); err != nil {
				t.Errorf("a pod that may be placed cannot be charged: %v", err)
			}
		}
		if _, err := kube.Transform(pod); err != nil {
			t.Error(err)
		}
	})
}
