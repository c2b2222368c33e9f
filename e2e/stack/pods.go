package stack

import (
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
)

// Container is a container of a pod to be, and its class.
type Container struct {
	corev1.Container
	init bool
}

// Init is an init container, Sidecar one with restartPolicy Always, App an ordinary container.
func Init(name string, limits ...Limit) Container { return container(name, true, limits) }

// Sidecar is an init container with restartPolicy Always.
func Sidecar(name string, limits ...Limit) Container {
	c := container(name, true, limits)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// App is an ordinary container.
func App(name string, limits ...Limit) Container { return container(name, false, limits) }

// Limit is a resource limit, or several.
type Limit map[corev1.ResourceName]string

// GPU is so many NVIDIA devices with so much memory on each.
func GPU(devices, memoryMiB int64) Limit {
	return Limit{
		"nvidia.com/gpu":    strconv.FormatInt(devices, 10),
		"nvidia.com/gpumem": strconv.FormatInt(memoryMiB, 10),
	}
}

// Cores is a limit of compute on each NVIDIA device, in percent.
func Cores(percent int64) Limit { return Limit{"nvidia.com/gpucores": strconv.FormatInt(percent, 10)} }

func container(name string, init bool, limits []Limit) Container {
	c := Container{corev1.Container{Name: name, Image: "example.test/" + name}, init}
	for _, limit := range limits {
		for key, text := range limit {
			if c.Resources.Limits == nil {
				c.Resources.Limits = corev1.ResourceList{}
			}
			c.Resources.Limits[key] = resource.MustParse(text)
		}
	}
	return c
}

// NewPod returns a pod, in restartPolicy Always, not yet created. Init containers and sidecars keep their
// order, and so do apps.
func NewPod(namespace, name string, containers ...Container) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for _, c := range containers {
		if c.init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c.Container)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c.Container)
		}
	}
	return pod
}

// Annotate sets an annotation of a pod that is not yet created.
func Annotate(pod *corev1.Pod, key, value string) *corev1.Pod {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	return pod
}

// Plan tells the simulated kubelet how the pod's containers run; see package nodesim. A pod whose apps
// should end needs another restartPolicy than Always, and gets Never.
func Plan(pod *corev1.Pod, plan string) *corev1.Pod {
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return Annotate(pod, nodesim.PlanAnnotation, plan)
}

// RandomContainers returns containers with devices in one of several shapes: i and j are init containers, s is a
// sidecar, a and b are apps.
func RandomContainers(random *rand.Rand) []Container {
	gpu := func(devices, least, most int64) Limit { return GPU(devices, least+random.Int64N(most-least)) }
	shapes := [][]Container{
		{Init("i", gpu(1, 12000, 24576)), App("a", gpu(1, 1000, 8000))},
		{
			Init("i", gpu(1, 8000, 20000)), Sidecar("s", gpu(1, 500, 2000)),
			Init("j", gpu(1, 8000, 20000)), App("a", gpu(1, 1000, 10000)),
		},
		{Init("i", gpu(2, 4000, 20000)), App("a", gpu(2, 1000, 8000))},
		{App("a", gpu(1, 1000, 12000)), App("b", gpu(1, 1000, 12000))},
		{Init("i"), Init("j", gpu(1, 1000, 8000), Cores(60)), App("a", gpu(1, 1000, 8000), Cores(30))},
		{Init("i", gpu(1, 8000, 24576)), App("a")},
	}
	return shapes[random.IntN(len(shapes))]
}
