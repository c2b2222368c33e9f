package nodesim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	helper "k8s.io/component-helpers/resource"

	"github.com/phasegpu/phasegpu/core/device"
)

// limits gives the named containers of a pod so many devices.
func limits(pod *corev1.Pod, devices map[string]int64) *corev1.Pod {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if n, ok := devices[list[i].Name]; ok {
				q := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
				list[i].Resources = corev1.ResourceRequirements{Limits: q, Requests: q}
			}
		}
	}
	return pod
}

func TestIDs(t *testing.T) {
	for _, c := range []struct {
		devices map[string]int64
		names   []string
		want    int64
	}{
		{map[string]int64{"a": 2}, []string{"a"}, 2},
		{map[string]int64{"i": 3, "a": 1}, []string{"i", "a"}, 3}, // the init container's ids are kept
		{map[string]int64{"i": 1, "a": 2}, []string{"i", "a"}, 2},
		{map[string]int64{"i": 1, "s": 1, "a": 1}, []string{"i", "s", "a"}, 2}, // s gets i's id
		{map[string]int64{"s": 1, "i": 1, "a": 1}, []string{"s", "i", "a"}, 2},
		{map[string]int64{"i": 2, "a": 1}, []string{"i", "a"}, 2},
		{map[string]int64{"i1": 3, "i2": 2, "a": 1}, []string{"i1", "i2", "a"}, 3},
	} {
		pod := limits(PodOf(corev1.RestartPolicyAlways, c.names...), c.devices)
		if got := ids(&pod.Spec, "nvidia.com/gpu"); got != c.want {
			t.Errorf("%v %v: %d ids, want %d", c.names, c.devices, got, c.want)
		}
	}
}

// TestIDsAgreeWithScheduler: kube-scheduler's formula is the number of ids that kubelet holds.
func TestIDsAgreeWithScheduler(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		var names []string
		devices := map[string]int64{}
		for n := range 1 + random.IntN(6) {
			name := fmt.Sprintf("%c%d", "isa"[random.IntN(3)], n)
			names = append(names, name)
			devices[name] = random.Int64N(5)
		}
		names = append(names, "app")
		pod := limits(PodOf(corev1.RestartPolicyAlways, names...), devices)
		want := helper.PodRequests(pod, helper.PodResourcesOptions{})["nvidia.com/gpu"]
		if got := ids(&pod.Spec, "nvidia.com/gpu"); got != want.Value() {
			t.Fatalf("seed %d: %v %v: %d ids, kube-scheduler counts %d", seed, names, devices, got, want.Value())
		}
	}
}

func TestJudge(t *testing.T) {
	node := Node{Name: "n", CPU: "2", Pods: 3, Devices: GPUs("n", 2, 1000)}
	for i := range node.Devices {
		node.Devices[i].Capacity.Slots = 2
	}
	allocatable, _, err := node.resources()
	if err != nil {
		t.Fatal(err)
	}
	gpu := func(n int64) *corev1.Pod {
		return limits(PodOf(corev1.RestartPolicyAlways, "a"), map[string]int64{"a": n})
	}
	cpu := func(q string) *corev1.Pod {
		pod := PodOf(corev1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(q)}
		return pod
	}
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		active []*corev1.Pod
		want   string // reason; "" for admitted
		says   string
	}{
		{"fits", gpu(4), nil, "", ""},
		{"too many devices", gpu(5), nil, "UnexpectedAdmissionError", "Requested: 5, Available: 4"},
		{"devices taken", gpu(2), []*corev1.Pod{gpu(3)}, "UnexpectedAdmissionError", "Requested: 2, Available: 1"},
		{"init's ids taken for life", gpu(2), []*corev1.Pod{
			limits(PodOf(corev1.RestartPolicyAlways, "i", "a"), map[string]int64{"i": 3, "a": 1}),
		}, "UnexpectedAdmissionError", "Available: 1"},
		{"last cpu", cpu("500m"), []*corev1.Pod{cpu("1500m")}, "", ""},
		{"no cpu", cpu("501m"), []*corev1.Pod{cpu("1500m")}, "OutOfcpu", "requested: 501m, used: 1500m, capacity: 2"},
		{"no room for a pod", cpu("1m"), []*corev1.Pod{cpu("1m"), cpu("1m"), cpu("1m")}, "OutOfpods", "capacity: 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(c.pod, c.active, allocatable)
			if got == nil {
				got = &rejection{}
			}
			if got.reason != c.want || !strings.Contains(got.message, c.says) {
				t.Errorf("%+v, want reason %q and a message with %q", *got, c.want, c.says)
			}
		})
	}
}

func TestNodeObject(t *testing.T) {
	node := Node{Name: "n", Labels: map[string]string{"rack": "r1"}, Devices: GPUs("n", 3, 24576)}
	node.Devices[1].Healthy = false
	node.Devices[2].Mode = device.MIG
	node.Devices[2].Cordoned = true
	node.Devices = append(node.Devices,
		device.Device{UUID: "MLU-0", Family: "MLU", Capacity: device.Amount{Slots: 4, MemoryMiB: 2560, Cores: 100},
			Healthy: true},
		device.Device{UUID: "DCU-0", Family: "DCU", Capacity: device.Amount{Slots: 4, MemoryMiB: 1024, Cores: 100},
			Healthy: true})
	o, err := node.object()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName][2]int64{
		"nvidia.com/gpu":                 {10, 20},
		"hygon.com/dcunum":               {4, 4},
		"cambricon.com/mlu.smlu.vcore":   {100, 100},
		"cambricon.com/mlu.smlu.vmemory": {10, 10}, // blocks of 256 MiB
		"cambricon.com/vmlu":             {0, 0},
		"iluvatar.ai/MR-V100-vgpu":       {0, 0},
		"pods":                           {110, 110},
	} {
		allocatable, capacity := o.Status.Allocatable[name], o.Status.Capacity[name]
		if allocatable.Value() != want[0] || capacity.Value() != want[1] {
			t.Errorf("%s: %v of %v, want %d of %d", name, &allocatable, &capacity, want[0], want[1])
		}
	}
	for _, key := range []string{"hami.io/node-nvidia-register", "hami.io/node-dcu-register"} {
		if o.Annotations[key] == "" {
			t.Errorf("no annotation %s", key)
		}
	}
	if got, want := o.Annotations["hami.io/device-cordon"], "GPU-n-2"; got != want {
		t.Errorf("cordoned %q, want %q", got, want)
	}
	if o.Labels["rack"] != "r1" {
		t.Errorf("labels %v", o.Labels)
	}

	node.Devices[0].Family = "nvidia"
	if _, err := node.object(); err == nil || !strings.Contains(err.Error(), `"nvidia"`) {
		t.Errorf("error %v, want one naming the family that is not declared", err)
	}
}

// TestOverlaps feeds what a watch would show.
func TestOverlaps(t *testing.T) {
	r := records{between: map[string]map[types.UID]waitedOn{}}
	pod := func(uid, node, allocation string) *corev1.Pod {
		p := PodOf(corev1.RestartPolicyAlways, "a")
		p.UID, p.Name, p.Spec.NodeName = types.UID(uid), uid, node
		if allocation != "" {
			p.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": allocation}
		}
		return p
	}
	reported := func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		p.Status.StartTime = &p.CreationTimestamp
		return p
	}
	a, b, same, cpu := pod("a", "n1", "A;"), pod("b", "n1", "B;"), pod("same", "n1", "A;"), pod("cpu", "n1", "")
	elsewhere := pod("elsewhere", "n2", "C;")
	for _, p := range []*corev1.Pod{a, cpu, elsewhere, same, reported(a), reported(same), b, reported(b), a} {
		r.observed(p)
	}
	r.gone(a)
	if len(r.overlaps) != 0 {
		t.Fatalf("overlaps %v among pods that take turns, are alike, hold nothing or are elsewhere", r.overlaps)
	}
	r.observed(pod("c", "n1", "C;"))
	r.observed(b)
	want := Overlap{"n1", types.NamespacedName{Namespace: "default", Name: "c"},
		types.NamespacedName{Namespace: "default", Name: "b"}}
	if len(r.overlaps) != 1 || r.overlaps[0] != want {
		t.Errorf("overlaps %v, want %v", r.overlaps, want)
	}
}
