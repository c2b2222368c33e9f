package kube_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	nvidiaRecord = "hami.io/vgpu-devices-allocated"
	amdRecord    = "hami.io/amd-devices-allocated"
	nvidiaList   = "hami.io/node-nvidia-register"
	dcuList      = "hami.io/node-dcu-register"
)

// Short names of what the tests are full of.
type (
	containers = []corev1.Container
	statuses   = []corev1.ContainerStatus
	conditions = []corev1.PodCondition
)

// list returns a list of resources from names and quantities in turn.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// container returns a container with limits and the requests that the API server makes of them.
func container(name string, pairs ...string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: list(pairs...), Requests: list(pairs...)}}
}

func sidecar(name string, pairs ...string) corev1.Container {
	c := container(name, pairs...)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// bound returns a pod on node-1 with annotations from keys and values in turn.
func bound(name string, inits, apps containers, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node-1", InitContainers: inits, Containers: apps},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	return p
}

// at returns the time n seconds into the tests.
func at(n int) metav1.Time { return metav1.NewTime(time.Unix(1_700_000_000+int64(n), 0)) }

func running(name string, from int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(from)}}}
}

func terminated(name string, code int32, from, to int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: at(from), FinishedAt: at(to)},
	}}
}

func condition(name string, status corev1.ConditionStatus, n int) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodConditionType(name), Status: status, LastTransitionTime: at(n)}
}

// node returns node-1 with annotations from keys and values in turn; all of kubelet's resources are
// allocatable.
func node(annotations ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{}}}
	n.Status.Allocatable = list("cpu", "8", "nvidia.com/gpu", "10", "amd.com/gpu", "10", "hygon.com/dcunum", "10")
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

// card is an inventory of one healthy NVIDIA card of 24576 MiB.
func card(uuid string) string {
	return `[{"id":"` + uuid + `","count":10,"devmem":24576,"devcore":100,"type":"Tesla P40","health":true}]`
}
