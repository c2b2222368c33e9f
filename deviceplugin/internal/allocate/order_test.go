package allocate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The calls that kubelet 1.37 was seen to make, with four replicas of a card on each of two NUMA nodes. Containers get
// their recorded devices, whichever ids kubelet gives them.
func TestKubeletsOrderOfCalls(t *testing.T) {
	all := func(nodes map[string]int, names ...string) map[string]int {
		for _, name := range names {
			nodes[name] = 1
		}
		return nodes
	}
	near1 := func(names ...string) map[string]int { return all(map[string]int{}, names...) }
	two := on("G0", 1000) + on("G1", 1000)
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		near  map[string]int
		calls []string
	}{
		"app": {
			newPod("p", part{"A", on("G1", 1000)}), near1("a0"),
			[]string{"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]"},
		},
		"init, sidecar, app": { // the sidecar is handed the init's id
			newPod("p", part{"I", on("G1", 3000)}, part{"S", on("G0", 2000)}, part{"A", on("G1", 1000)}),
			near1("i0", "a2"),
			[]string{"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]", "Allocate [1×n1]",
				"GPA available=[3×n1] must=[] size=1", "Allocate [1×n1]"},
		},
		"sidecar, init, app": { // the app is handed the init's id
			newPod("p", part{"S", on("G0", 1000)}, part{"I", on("G1", 3000)}, part{"A", on("G0", 2000)}),
			all(map[string]int{"s0": 0}, "i1", "a2"),
			[]string{"GPA available=[4×n0] must=[] size=1", "Allocate [1×n0]",
				"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]", "Allocate [1×n1]"},
		},
		"init, app with two": {
			newPod("p", part{"I", on("G0", 1000)}, part{"A", two}), near1("i0", "a1"),
			[]string{"GPA available=[4×n1] must=[] size=1", "Allocate [1×n1]",
				"GPA available=[4×n1] must=[1×n1] size=2", "Allocate [2×n1]"},
		},
		"init with two, app": {
			newPod("p", part{"I", two}, part{"A", on("G0", 1000)}), near1("i0", "a1"),
			[]string{"GPA available=[4×n1] must=[] size=2", "Allocate [2×n1]", "Allocate [1×n1]"},
		},
		"policy none": {
			newPod("p", part{"I", on("G1", 3000)}, part{"S", on("G0", 2000)}, part{"A", on("G1", 1000)}), nil,
			[]string{"GPA available=[4×n0 4×n1] must=[] size=1", "Allocate [1×n1]", "Allocate [1×n1]",
				"GPA available=[4×n0 3×n1] must=[] size=1", "Allocate [1×n1]"},
		},
		"containers without devices between": {
			newPod("p", part{"I", ""}, part{"I", on("G0", 1000)}, part{"A", ""}, part{"A", on("G1", 2000)},
				part{"A", on("G0", 3000)}), nil,
			[]string{"GPA available=[4×n0 4×n1] must=[] size=1", "Allocate [1×n0]", "Allocate [1×n0]",
				"GPA available=[3×n0 4×n1] must=[] size=1", "Allocate [1×n0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 4)
			n.admit(c.pod, c.near)
			if diff := cmp.Diff(c.calls, n.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// What the Topology Manager rejects: no call comes for the container that has no NUMA node, and the plugin
// is the wiser for nothing but the pod's end.
func TestRejectedByTheTopologyManager(t *testing.T) {
	five := on("G0", 1000) + on("G1", 1000) + on("G2", 1000) + on("G3", 1000) + on("G4", 1000)
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		near  map[string]int
		calls []string
	}{
		"more than a NUMA node has": {newPod("p", part{"A", five}), map[string]int{"a0": 1}, nil},
		"the init's id is on another NUMA node than the app's CPU": {
			newPod("p", part{"I", on("G0", 1000)}, part{"A", on("G1", 2000)}), map[string]int{"a1": 1},
			[]string{"GPA available=[4×n0] must=[] size=1", "Allocate [1×n0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 4)
			n.bind(c.pod)
			refused(t, n.Admit(t.Context(), c.pod, c.near), "TopologyAffinityError")
			if diff := cmp.Diff(c.calls, n.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			n.Remove("p")
			n.report(c.pod, corev1.PodFailed)
			n.admit(newPod("next", part{"A", on("G0", 3000)}), map[string]int{"a0": 0})
		})
	}
}

// All of a NUMA node's ids are given without asking; with policy none kubelet asks all the same.
func TestForcedSets(t *testing.T) {
	n := newNode(t, 1)
	n.admit(newPod("p", part{"A", on("G0", 1000)}), map[string]int{"a0": 1})
	if diff := cmp.Diff([]string{"Allocate [1×n1]"}, n.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	n = newNode(t, 1)
	n.admit(newPod("p", part{"A", on("G0", 1000) + on("G1", 2000)}), nil)
	if diff := cmp.Diff([]string{"GPA available=[1×n0 1×n1] must=[] size=2", "Allocate [1×n0 1×n1]"},
		n.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// The order of a record is not the order in which a container sees its devices.
func TestLimitsGoByTheOrderOfTheCards(t *testing.T) {
	n := newNode(t, 2)
	pod := newPod("p", part{"A", on("G1", 2000) + on("G0", 1000)})
	n.bind(pod)
	must(t, n.Admit(t.Context(), pod, nil))
	if got := n.given(pod, "a0"); got != "G0,G1 1000m,2000m 0" {
		t.Errorf("given %q, want the limit of G0 first", got)
	}
}

// Every pod's containers, one pod after another, get their own, and ids of pods that are gone are reused.
func TestManyPods(t *testing.T) {
	n := newNode(t, 10)
	for i := range 40 {
		pod := newPod(fmt.Sprint("p", i), part{"I", on("G0", 100+i)}, part{"S", on("G1", 200+i)}, part{"A", ""},
			part{"A", on("G0", 300+i)})
		n.admit(pod, nil)
		if i >= 5 {
			gone := fmt.Sprint("p", i-5)
			n.forget(&corev1.Pod{ObjectMeta: newPod(gone).ObjectMeta})
			n.Remove(gone)
		}
	}
	// An id or cache folder that is left behind would be one of a pod that is gone.
	entries, err := state{n}.Checkpoint()
	must(t, err)
	if len(entries) > 7*3 {
		t.Errorf("kubelet still holds %d containers' ids", len(entries))
	}
}

func TestKubeletAsksForAnotherNumber(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"A", on("G0", 1000)})
	pod.Spec.Containers[0].Resources.Limits[gpus] = resource.MustParse("2")
	n.bind(pod)
	refused(t, n.Admit(t.Context(), pod, nil), "asks for 2 of nvidia.com/gpu",
		"pod team/p, container a0 (1 devices recorded)")
}
