// Package baseline is what benchmarks measure with and against: a cluster of a given size, and the accountant
// that keeps no book. It is for benchmarks of gen and of the binaries; nothing that runs imports it.
package baseline

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Shape of a cluster. With 16 pods on a node a card is still a good half free in each of its pods' phases.
const (
	Devices    = 8 // per node
	MemoryMiB  = 24576
	Namespaces = 10
)

// Cluster is nodes of 8 cards with pods of an init container, a sidecar and an app on them, all in steady
// state; some nodes hold more than others. Every cluster of a size is the same.
type Cluster struct {
	Nodes []ledger.Node
	Pods  []*corev1.Pod
}

// New returns a cluster of nodes with so many pods each, one after the other on their cards.
func New(nodes, podsPerNode int) *Cluster {
	c := &Cluster{}
	for n := range nodes {
		node := ledger.Node{Name: fmt.Sprintf("node-%04d.gpu.example.internal", n)}
		for d := range Devices {
			node.Devices = append(node.Devices, device.Device{
				UUID: fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", n, d), Index: d,
				Family: "NVIDIA", Model: "NVIDIA A10", NUMA: d / (Devices / 2),
				Capacity: device.Amount{Slots: 10, MemoryMiB: MemoryMiB, Cores: 100}, Healthy: true,
			})
		}
		c.Nodes = append(c.Nodes, node)
		for k := range podsPerNode {
			c.Pods = append(c.Pods, bound(&node, n*podsPerNode+k, node.Devices[k%Devices].UUID, int64(n%5)))
		}
	}
	return c
}

// bound is pod number i, on one card of a node. Its app is larger by size, 0 to 4.
func bound(node *ledger.Node, i int, card string, size int64) *corev1.Pod {
	const init, sidecar = 2000, 1000
	app := 1000 + 1000*size
	pod := Pod(fmt.Sprintf("training-job-%06d", i), init, sidecar, app)
	pod.Namespace = fmt.Sprintf("team-%d", i%Namespaces)
	pod.ResourceVersion = fmt.Sprint(1000 + i)
	pod.Spec.NodeName = node.Name
	pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpucores"] = *resource.NewQuantity(10*size, resource.DecimalSI)
	share := func(memory, cores int64) []device.Share {
		amount := device.Amount{Slots: 1, MemoryMiB: memory, Cores: cores}
		return []device.Share{{UUID: card, Family: "NVIDIA", Amount: amount}}
	}
	allocation := device.Allocation{share(init, 0), share(sidecar, 0), share(app, 10*size)}
	pod.Annotations = kube.AllocationAnnotations(allocation)
	start := metav1.NewTime(time.Unix(1_700_000_000, 0))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}
	completed := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: start, FinishedAt: start}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &start, QOSClass: corev1.PodQOSBurstable,
		PodIP: "10.0.0.1", HostIP: "10.1.0.1",
		InitContainerStatuses: []corev1.ContainerStatus{
			status("init", corev1.ContainerState{Terminated: completed}), status("sidecar", running),
		},
		ContainerStatuses: []corev1.ContainerStatus{status("app", running)},
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		corev1.PodScheduled,
	} {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: start}
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
	}
	return pod
}

func status(name string, state corev1.ContainerState) corev1.ContainerStatus {
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	return corev1.ContainerStatus{
		Name: name, State: state, Ready: true, Image: "registry.example/" + name + ":1",
		ImageID:     "registry.example/" + name + "@" + digest,
		ContainerID: "containerd://60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
	}
}

// Pod is an unbound pod of an init container, a sidecar and an app that ask for one device each with the given
// memory in MiB, with what an API server adds to it.
func Pod(name string, init, sidecar, app int64) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name string, mib int64) corev1.Container {
		resources := corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("1"),
			"nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
		}
		return corev1.Container{
			Name: name, Image: "registry.example/" + name + ":1", Command: []string{"/usr/bin/" + name, "--verbose"},
			Env:       []corev1.EnvVar{{Name: "STAGE", Value: name}, {Name: "DATA", Value: "/data"}},
			Resources: corev1.ResourceRequirements{Limits: resources, Requests: resources},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
			},
			TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}
	}
	side := container("sidecar", sidecar)
	side.RestartPolicy = &always
	yes, expires, grace := true, int64(3607), int64(30)
	root := corev1.LocalObjectReference{Name: "kube-root-ca.crt"}
	access := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: root}},
	}}
	tolerate := func(taint string) corev1.Toleration {
		return corev1.Toleration{
			Key: "node.kubernetes.io/" + taint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute,
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-0", Name: name, UID: types.UID("550e8400-e29b-41d4-a716-" + name), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
			Labels:            map[string]string{"app": "training", "batch.kubernetes.io/job-name": name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: name, Controller: &yes,
				UID: types.UID("6ba7b810-9dad-11d1-80b4-" + name),
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate,
				APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{},` +
					`"f:batch.kubernetes.io/job-name":{}},"f:ownerReferences":{".":{}}},"f:spec":{"f:containers":{` +
					`"k:{\"name\":\"app\"}":{".":{},"f:command":{},"f:env":{".":{},"k:{\"name\":\"STAGE\"}":{".":{},` +
					`"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},` +
					`"f:cpu":{},"f:nvidia.com/gpu":{},"f:nvidia.com/gpumem":{}}}}}}}`),
			}},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("init", init), side},
			Containers:     []corev1.Container{container("app", app)},
			Volumes: []corev1.Volume{
				{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: access}},
			},
			Tolerations:   []corev1.Toleration{tolerate("not-ready"), tolerate("unreachable")},
			RestartPolicy: corev1.RestartPolicyNever, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default",
			SchedulerName: "phasegpu-scheduler", TerminationGracePeriodSeconds: &grace,
		},
	}
}

// Names returns the names of all nodes.
func (c *Cluster) Names() []string {
	var names []string
	for i := range c.Nodes {
		names = append(names, c.Nodes[i].Name)
	}
	return names
}

// Objects returns the nodes as the API server has them.
func (c *Cluster) Objects() ([]*corev1.Node, error) {
	var objects []*corev1.Node
	for i := range c.Nodes {
		inventory, err := wire.EncodeInventory(c.Nodes[i].Devices)
		if err != nil {
			return nil, err
		}
		resources := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("80"), "cpu": resource.MustParse("96")}
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: c.Nodes[i].Name, Annotations: map[string]string{"hami.io/node-nvidia-register": inventory},
			},
			Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources},
		})
	}
	return objects, nil
}

// Book returns the ledger of the cluster.
func (c *Cluster) Book() *ledger.Book {
	book := ledger.New()
	for _, n := range c.Nodes {
		book.SetNode(n)
	}
	for _, p := range c.Pods {
		book.Observe(kube.LedgerPod(p, phase.PerInit))
	}
	return book
}
