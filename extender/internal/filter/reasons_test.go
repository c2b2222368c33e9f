package filter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
)

// troubled gives a node one of everything that can be the matter with one.
func (d *desk) troubled(r *rand.Rand, name string) {
	c := card("G-"+name, 24576)
	switch r.IntN(16) {
	case 0:
		return // the books do not know it
	case 1:
		d.book.SetNode(ledger.Node{Name: name, Unreadable: "annotation: not JSON, at byte " + name})
		return
	case 2:
		d.node(name)
		return
	case 3:
		c.Healthy = false
	case 4:
		c.Cordoned = true
	case 5:
		c.Mode = device.MIG
	case 6:
		c.Capacity.MemoryMiB = 1000 + r.Int64N(7000)
	case 7:
		c.Family = "AMD"
	case 8:
		c.Model = "B"
	case 9:
		d.shut[name] = "GPU gate shut"
	case 10:
		d.shut[name] = "GPU gate deep"
	case 11:
		d.book.Observe(ledger.Pod{UID: "u" + name, Namespace: "others", Name: name, Node: name, Classes: phase.Pod{phase.App}, Unreadable: "annotation: " + name})
	case 12: // a percentage of it is too much for the quota
		c.Capacity.MemoryMiB = 30000 + r.Int64N(50000)
	}
	d.node(name, c)
	share := device.Share{UUID: c.UUID, Family: c.Family, Amount: device.Amount{Slots: 1, MemoryMiB: 1}}
	switch r.IntN(6) {
	case 0:
		share.Amount.MemoryMiB = c.Capacity.MemoryMiB - r.Int64N(1000)
	case 1:
		share.Amount.Slots = c.Capacity.Slots
	case 2:
		share.Amount.Cores = device.WholeCores
	default:
		return
	}
	d.book.Observe(ledger.Pod{UID: "h" + name, Namespace: "others", Name: "h" + name, Node: name, Classes: phase.Pod{phase.App}, Allocation: device.Allocation{{share}}})
}

// However many nodes there are and whatever is the matter with each, a pod's owner reads a handful of
// sentences, and numbers only of a quota. Nothing else about the answer changes for it.
func TestAHandfulOfReasons(t *testing.T) {
	known := append(filter.Reasons(), "GPU gate shut", "GPU gate deep")
	most := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDesk()
		d.shut = map[string]string{}
		var nodes []string
		for i := range 1 + r.IntN(400) {
			nodes = append(nodes, fmt.Sprint("n", i))
			d.troubled(r, nodes[i])
		}
		if r.IntN(2) == 0 {
			d.book.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: 15000}}})
		}
		pod := threePhases("p", 0, 0, 0)
		pod.Spec.InitContainers = nil
		pod.Annotations = map[string]string{"nvidia.com/use-gputype": "A"}
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		switch r.IntN(3) {
		case 0:
			pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem-percentage"] = resource.MustParse("50")
		case 1:
			pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("16000")
		}
		got := d.Filter.Filter(t.Context(), args(pod, nodes...))
		if got.Error != "" {
			t.Fatalf("seed %d: %s", seed, got.Error)
		}
		seen := slices.Clone(*got.NodeNames)
		said := map[string]int{}
		for node, reason := range got.FailedAndUnresolvableNodes {
			seen = append(seen, node)
			said[reason]++
		}
		slices.Sort(seen)
		slices.Sort(nodes)
		if diff := cmp.Diff(nodes, seen); diff != "" {
			t.Fatalf("seed %d: each node once: %s", seed, diff)
		}
		if len(said) > filter.Handful {
			t.Errorf("seed %d: %d reasons: %v", seed, len(said), said)
		}
		for reason, n := range said {
			if rest, quota := strings.CutPrefix(reason, "Exceeded quota: "); quota {
				if strings.Count(rest, "asked") != 1 {
					t.Errorf("seed %d: %q", seed, reason)
				}
				continue
			}
			if canonical, selectors, told := strings.Cut(reason, ": "); told {
				if selectors != `nvidia.com/use-gputype "A"` {
					t.Errorf("seed %d: %q", seed, reason)
				}
				reason = canonical
			}
			if strings.ContainsAny(reason, "0123456789") || len(reason) > 100 {
				t.Errorf("seed %d: reason %q", seed, reason)
			}
			if !slices.Contains(known, reason) {
				if reason != "Other GPU reasons (kubectl phasegpu why lists them)" {
					t.Errorf("seed %d: an unknown reason %q", seed, reason)
				}
				continue
			}
			if d.counted[reason] != n {
				t.Errorf("seed %d: %d nodes are told %q, %d are counted", seed, n, reason, d.counted[reason])
			}
		}
		// What is left out is counted by its name all the same.
		total := 0
		for reason, n := range d.counted {
			total += n
			if !slices.Contains(known, reason) {
				t.Errorf("seed %d: %q is counted", seed, reason)
			}
		}
		if total != len(got.FailedAndUnresolvableNodes) {
			t.Errorf("seed %d: %d nodes are counted, %d refused", seed, total, len(seen)-len(*got.NodeNames))
		}
		most = max(most, len(d.counted))
	}
	if most < 2*filter.Handful {
		t.Errorf("at most %d things are the matter in this test: it shows nothing", most)
	}
}

// What the pod itself excludes is told of all nodes alike, by its annotations, of which one may be as long as it likes.
func TestSelectorsAreTold(t *testing.T) {
	d := newDesk()
	var nodes []string
	for i, model := range []string{"NVIDIA L4", "Tesla T4", "NVIDIA L4"} {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, name)
		c := card("G-"+name, 24576)
		c.Model = model
		d.node(name, c)
	}
	long := strings.Repeat("é", 100_000)
	for _, test := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{"nvidia.com/use-gputype": "A100, H100"}, `nvidia.com/use-gputype "A100,H100"`},
		{map[string]string{"nvidia.com/nouse-gpuuuid": "G-n0,G-n2", "nvidia.com/nouse-gputype": "T4"}, `nvidia.com/nouse-gpuuuid "G-n0,G-n2" and nvidia.com/nouse-gputype "T4"`},
		{map[string]string{"nvidia.com/use-gpuuuid": "a\nb"}, `nvidia.com/use-gpuuuid "a\nb"`},
		{map[string]string{"nvidia.com/use-gputype": "A100," + long}, `nvidia.com/use-gputype "A100,` + long[:54] + `…"`},
		{map[string]string{"nvidia.com/use-gputype": strings.Repeat("\x01", 60)}, `nvidia.com/use-gputype "` + strings.Repeat(`\x01`, 15) + `…"`},
	} {
		pod := threePhases("p", 1000, 1000, 1000)
		pod.Annotations = test.annotations
		got := d.Filter.Filter(t.Context(), args(pod, nodes...))
		want := extenderv1.FailedNodesMap{}
		for _, name := range nodes {
			want[name] = "GPUs excluded by the pod's selectors: " + test.want
		}
		if diff := cmp.Diff(want, got.FailedAndUnresolvableNodes); diff != "" {
			t.Error(diff)
		}
	}
	if n := d.counted["GPUs excluded by the pod's selectors"]; n != 15 {
		t.Errorf("%d are counted: %v", n, d.counted)
	}
}

// What may pass is told before what lasts, and what is said of few nodes is left out first.
func TestWhichReasons(t *testing.T) {
	d := newDesk()
	d.shut = map[string]string{}
	var nodes []string
	node := func(n int, set func(name string, c *device.Device)) {
		for range n {
			name := fmt.Sprint("n", len(nodes))
			nodes = append(nodes, name)
			c := card("G-"+name, 24576)
			set(name, &c)
			d.node(name, c)
		}
	}
	node(9, func(_ string, c *device.Device) { c.Family = "AMD" })
	node(8, func(_ string, c *device.Device) { c.Cordoned = true })
	node(7, func(_ string, c *device.Device) { c.Capacity.MemoryMiB = 100 })
	node(3, func(_ string, c *device.Device) { c.Healthy = false })
	node(2, func(name string, c *device.Device) { d.hold(name, c.UUID, 24000) })
	node(1, func(name string, _ *device.Device) { d.shut[name] = "GPU gate shut" })
	got := d.Filter.Filter(t.Context(), args(threePhases("p", 1000, 1000, 1000), nodes...))
	said := map[string]int{}
	for _, reason := range got.FailedAndUnresolvableNodes {
		said[reason]++
	}
	want := map[string]int{
		"Insufficient GPU memory in the pod's phases": 2, "GPU gate shut": 1,
		"No GPU of the requested family": 9, "Cordoned GPUs": 8,
		"Other GPU reasons (kubectl phasegpu why lists them)": 10,
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}
