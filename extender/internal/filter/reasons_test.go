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
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// troubled adds a node with something wrong, or nothing.
func (f *fixture) troubled(r *rand.Rand, name string) {
	c := card("G-"+name, 24576)
	switch r.IntN(16) {
	case 0:
		return // the books do not know it
	case 1:
		f.SetNode(ledger.Node{Name: name, Unreadable: "annotation: not JSON, at byte " + name})
		return
	case 2:
		f.node(name)
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
		f.shut[name] = "GPU gate shut"
	case 10:
		f.shut[name] = "GPU gate deep"
	case 11:
		f.Spoil("u"+name, name)
	case 12: // a percentage of it is too much for the quota
		c.Capacity.MemoryMiB = 30000 + r.Int64N(50000)
	}
	f.node(name, c)
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
	f.Observe(ledger.Pod{
		UID: "h" + name, Namespace: "others", Name: "h" + name, Node: name,
		Classes: phase.Pod{phase.App}, Allocation: device.Allocation{{share}},
	})
}

// However many nodes there are and whatever is wrong with each, a pod's owner reads a handful of sentences, with
// numbers only for a quota. Each node is still answered and counted.
func TestAHandfulOfReasons(t *testing.T) {
	known := append(filter.Reasons(), "GPU gate shut", "GPU gate deep")
	most := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFixture()
		var nodes []string
		for i := range 1 + r.IntN(400) {
			nodes = append(nodes, fmt.Sprint("n", i))
			f.troubled(r, nodes[i])
		}
		if r.IntN(2) == 0 {
			f.Limit(15000)
		}
		pod := sample.Pod("p", 0, 0)
		pod.Annotations = map[string]string{"nvidia.com/use-gputype": "A"}
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		switch r.IntN(3) {
		case 0:
			pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem-percentage"] = resource.MustParse("50")
		case 1:
			pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("16000")
		}
		got := f.Filter.Filter(t.Context(), args(pod, nodes...))
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
			if canonical, selectors, found := strings.Cut(reason, ": "); found {
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
			if f.counted[reason] != n {
				t.Errorf("seed %d: %d nodes are answered %q, %d are counted", seed, n, reason, f.counted[reason])
			}
		}
		// What is left out of the answer is counted too.
		total := 0
		for reason, n := range f.counted {
			total += n
			if !slices.Contains(known, reason) {
				t.Errorf("seed %d: %q is counted", seed, reason)
			}
		}
		if total != len(got.FailedAndUnresolvableNodes) {
			t.Errorf("seed %d: %d nodes are counted, %d refused", seed, total, len(seen)-len(*got.NodeNames))
		}
		most = max(most, len(f.counted))
	}
	if most < 2*filter.Handful {
		t.Errorf("at most %d things are wrong in this test: it shows nothing", most)
	}
}

// What the pod itself excludes is said the same for all nodes: by its annotations, cut where they are long.
func TestSelectorsAreNamed(t *testing.T) {
	f := newFixture()
	var nodes []string
	for i, model := range []string{"NVIDIA L4", "Tesla T4", "NVIDIA L4"} {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, name)
		c := card("G-"+name, 24576)
		c.Model = model
		f.node(name, c)
	}
	long := strings.Repeat("é", 100_000)
	for _, test := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{"nvidia.com/use-gputype": "A100, H100"}, `nvidia.com/use-gputype "A100,H100"`},
		{
			map[string]string{"nvidia.com/nouse-gpuuuid": "G-n0,G-n2", "nvidia.com/nouse-gputype": "T4"},
			`nvidia.com/nouse-gpuuuid "G-n0,G-n2" and nvidia.com/nouse-gputype "T4"`,
		},
		{map[string]string{"nvidia.com/use-gpuuuid": "a\nb"}, `nvidia.com/use-gpuuuid "a\nb"`},
		{
			map[string]string{"nvidia.com/use-gputype": "A100," + long},
			`nvidia.com/use-gputype "A100,` + long[:54] + `…"`,
		},
		{
			map[string]string{"nvidia.com/use-gputype": strings.Repeat("\x01", 60)},
			`nvidia.com/use-gputype "` + strings.Repeat(`\x01`, 15) + `…"`,
		},
	} {
		pod := threePhases("p", 1000, 1000, 1000)
		pod.Annotations = test.annotations
		got := f.Filter.Filter(t.Context(), args(pod, nodes...))
		want := extenderv1.FailedNodesMap{}
		for _, name := range nodes {
			want[name] = "GPUs excluded by the pod's selectors: " + test.want
		}
		if diff := cmp.Diff(want, got.FailedAndUnresolvableNodes); diff != "" {
			t.Error(diff)
		}
	}
	if n := f.counted["GPUs excluded by the pod's selectors"]; n != 15 {
		t.Errorf("%d are counted: %v", n, f.counted)
	}
}

// What may pass comes before what lasts, and reasons of few nodes are left out first.
func TestWhichReasons(t *testing.T) {
	f := newFixture()
	var nodes []string
	node := func(n int, set func(name string, c *device.Device)) {
		for range n {
			name := fmt.Sprint("n", len(nodes))
			nodes = append(nodes, name)
			c := card("G-"+name, 24576)
			set(name, &c)
			f.node(name, c)
		}
	}
	node(9, func(_ string, c *device.Device) { c.Family = "AMD" })
	node(8, func(_ string, c *device.Device) { c.Cordoned = true })
	node(7, func(_ string, c *device.Device) { c.Capacity.MemoryMiB = 100 })
	node(3, func(_ string, c *device.Device) { c.Healthy = false })
	node(2, func(name string, c *device.Device) { f.hold(name, c.UUID, 24000) })
	node(1, func(name string, _ *device.Device) { f.shut[name] = "GPU gate shut" })
	got := f.Filter.Filter(t.Context(), args(threePhases("p", 1000, 1000, 1000), nodes...))
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
