// Package sample makes pods and ledgers for tests: cards have 24576 MiB, containers ask for memory of one card.
package sample

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Pod returns a pod of namespace ns whose app, and init container unless that is 0, ask for so many MiB.
func Pod(name string, init, app int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if init > 0 {
		pod.Spec.InitContainers = []corev1.Container{Container("init", init)}
	}
	pod.Spec.Containers = []corev1.Container{Container("app", app)}
	return pod
}

// Nominated gives a pod a priority, and the node that kube-scheduler has nominated it to, "" for none.
func Nominated(pod *corev1.Pod, priority int32, node string) *corev1.Pod {
	pod.Spec.Priority, pod.Status.NominatedNodeName = &priority, node
	return pod
}

// Container returns a container that asks for so many MiB of a card.
func Container(name string, mib int64) corev1.Container {
	c := corev1.Container{Name: name, Image: "registry.example/" + name + ":1"}
	c.Resources.Limits = corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI),
	}
	return c
}

// Card returns a card.
func Card(uuid string) device.Device {
	return device.Device{
		UUID: uuid, Family: "NVIDIA", Model: "A", Healthy: true,
		Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
	}
}

// Book is a ledger.
type Book struct{ *ledger.Book }

// NewBook returns an empty ledger.
func NewBook() Book { return Book{ledger.New()} }

// Add adds a node with cards, which are named after it: n-0, n-1.
func (b Book) Add(name string, cards int) {
	n := ledger.Node{Name: name}
	for i := range cards {
		n.Devices = append(n.Devices, Card(fmt.Sprintf("%s-%d", name, i)))
	}
	b.SetNode(n)
}

// Hold has a pod hold MiB of a card, for its init container, unless that is 0, and for its app.
func (b Book) Hold(uid, node, card string, init, app int64) {
	p := ledger.Pod{UID: uid, Namespace: "ns", Name: uid, Node: node}
	for i, mib := range []int64{init, app} {
		if i == 0 && mib == 0 {
			continue
		}
		p.Classes = append(p.Classes, []phase.Class{phase.Init, phase.App}[i])
		amount := device.Amount{Slots: 1, MemoryMiB: mib}
		p.Allocation = append(p.Allocation, []device.Share{{UUID: card, Family: "NVIDIA", Amount: amount}})
	}
	b.Observe(p)
}

// Spoil has a pod of another namespace on a node, whose allocation cannot be read.
func (b Book) Spoil(uid, node string) {
	b.Observe(ledger.Pod{
		UID: uid, Namespace: "others", Name: uid, Node: node, Classes: phase.Pod{phase.App},
		Unreadable: "annotation: G0,abc,;",
	})
}

// Limit has a quota limit the memory of namespace ns.
func (b Book) Limit(mib int64) {
	b.SetQuota(ledger.Quota{Namespace: "ns", Name: "q", Limits: []ledger.Limit{
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: mib},
	}})
}
