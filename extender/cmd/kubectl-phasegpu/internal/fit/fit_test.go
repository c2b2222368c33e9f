package fit

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

func gpus(count, memory int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(count, resource.DecimalSI)}
	if memory != 0 {
		list["nvidia.com/gpumem"] = *resource.NewQuantity(memory, resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

func pod(name, node, allocation string, containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: containers}}
	if allocation != "" {
		p.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": allocation}
	}
	return p
}

func node(name string, allocatable int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"hami.io/node-nvidia-register": fmt.Sprintf(
			`[{"id":"%s-0","count":4,"devmem":10000,"devcore":100,"type":"T","health":true}]`, name),
	}}}
	if allocatable > 0 {
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(allocatable,
			resource.DecimalSI)}
	}
	return n
}

// place returns the nodes on which pods go one after the other, "" for none, and what was reported.
func place(nodes []*corev1.Node, bound, pods []*corev1.Pod, p podrequest.Defaults) (where, problems []string) {
	c := New(nodes, bound, nil, p, func(object string, err error) { problems = append(problems, object) })
	for _, pod := range pods {
		result, err := c.Place(pod)
		switch {
		case err != nil:
			problems = append(problems, "Pod "+pod.Name)
		case result.Node == nil:
			where = append(where, "")
		default:
			where = append(where, *result.Node)
		}
	}
	return where, problems
}

func TestPlace(t *testing.T) {
	type nodes []*corev1.Node
	type pods []*corev1.Pod
	type names = []string
	asks := func(memory int64) *corev1.Pod {
		return pod("p", "", "", corev1.Container{Name: "a", Resources: gpus(1, memory)})
	}
	ended := pod("ended", "n1", "n1-0,NVIDIA,9000,0:;", corev1.Container{Name: "a", Resources: gpus(1, 9000)})
	ended.Status.Phase = corev1.PodSucceeded
	running := pod("running", "n1", "n1-0,NVIDIA,9000,0:;", corev1.Container{Name: "a", Resources: gpus(1, 9000)})
	garbled := pod("garbled", "n1", "n1-0", corev1.Container{Name: "a", Resources: gpus(1, 9000)})
	tolerant := asks(1000)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	progressed := asks(6000)
	progressed.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: gpus(1, 8000)}}
	progressed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	closed := node("n1", 4)
	closed.Spec.Unschedulable = true
	twice := asks(6000)
	twice.UID = "u"
	n1, n2 := node("n1", 4), node("n2", 4)

	for _, c := range []struct {
		name            string
		nodes           nodes
		bound, pods     pods
		spread          bool
		where, problems []string
	}{
		{"binpack fills a node before the next", nodes{n1, n2}, nil, pods{asks(6000), asks(4000), asks(4000)}, false,
			names{"n1", "n1", "n2"}, nil},
		{"spread goes to the emptier", nodes{n1, n2}, nil, pods{asks(6000), asks(4000), asks(4000)}, true,
			names{"n1", "n2", "n2"}, nil},
		{"the same pod twice is two pods", nodes{n1}, nil, pods{twice, twice}, false, names{"n1", ""}, nil},
		{"a bound pod holds", nodes{n1}, pods{running}, pods{asks(1001), asks(1000)}, false, names{"", "n1"}, nil},
		{"given twice, once", nodes{node("n1", 2)}, pods{running, running.DeepCopy()}, pods{asks(1000)}, false,
			names{"n1"}, nil},
		{"an ended one does not", nodes{n1}, pods{ended}, pods{asks(10000)}, false, names{"n1"}, nil},
		{"an unreadable one closes its node", nodes{n1, n2}, pods{garbled}, pods{asks(1000)}, false, names{"n2"},
			names{"Pod ml/garbled"}},
		{"kubelet's count rules beside the slots", nodes{node("n1", 1)}, nil, pods{asks(1), asks(1)}, false,
			names{"n1", ""}, nil},
		{"without allocatable the inventory rules", nodes{node("n1", 0)}, nil,
			pods{asks(1), asks(1), asks(1), asks(1), asks(1)}, false, names{"n1", "n1", "n1", "n1",
				""}, names{"Node n1"}},
		{"a closed node, and who tolerates it", nodes{closed}, nil, pods{asks(1), tolerant}, false, names{"", "n1"},
			nil},
		{"a node given twice counts as given last", nodes{closed, n1}, nil, pods{asks(10000)}, false, names{"n1"}, nil},
		{"a pod to place starts from its first phase, whatever its status", nodes{n1}, nil,
			pods{progressed, asks(3000), asks(2000)}, false, names{"n1", "", "n1"}, nil},
		{"a pod without devices goes anywhere", nodes{n1}, pods{garbled},
			pods{pod("cpu", "", "", corev1.Container{Name: "a"})}, false, names{"n1"}, names{"Pod ml/garbled"}},
		{"a bad pod loses no other", nodes{n1}, nil, pods{asks(-1), asks(1)}, false, names{"n1"}, names{"Pod p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p podrequest.Defaults
			if c.spread {
				p.NodePolicy = 1
			}
			where, problems := place(c.nodes, c.bound, c.pods, p)
			if diff := cmp.Diff(c.where, where); diff != "" {
				t.Errorf("nodes: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems: -want +got\n%s", diff)
			}
		})
	}
}

// The count that kube-scheduler sees is the API server's own fold.
func TestPeakIsKubernetesOwnFormula(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewSource(seed))
	always, onFailure := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicy("OnFailure")
	for i := range 10_000 {
		p := &corev1.Pod{}
		for j := range 1 + random.Intn(6) {
			c := corev1.Container{Name: fmt.Sprint(j)}
			if random.Intn(3) > 0 {
				c.Resources = gpus(random.Int63n(5), 0)
			}
			c.RestartPolicy = []*corev1.ContainerRestartPolicy{nil, &always, &onFailure}[random.Intn(3)]
			if random.Intn(2) > 0 {
				p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			} else {
				p.Spec.Containers = append(p.Spec.Containers, c)
			}
		}
		want := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})["nvidia.com/gpu"]
		if got := peakOf(p, "nvidia.com/gpu"); got != want.Value() {
			t.Fatalf("seed %d, pod %d: %d, want %d", seed, i, got, want.Value())
		}
	}
}
