package baseline

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
)

// Accountant works like a scheduler without a ledger: on each call it reads the annotation of every pod and adds up
// what all containers hold, as if they ran at once. It checks nothing that it reads.
type Accountant struct {
	pods  []*corev1.Pod
	nodes map[string]*ledger.Node
}

// Accountant returns the accountant of the cluster.
func (c *Cluster) Accountant() *Accountant {
	a := &Accountant{pods: c.Pods, nodes: map[string]*ledger.Node{}}
	for i := range c.Nodes {
		a.nodes[c.Nodes[i].Name] = &c.Nodes[i]
	}
	return a
}

// Usage is what is held, by device and by namespace.
type Usage struct{ Devices, Namespaces map[string]device.Amount }

// Sum adds up all pods.
func (a *Accountant) Sum() Usage {
	u := Usage{map[string]device.Amount{}, map[string]device.Amount{}}
	for _, p := range a.pods {
		namespace := u.Namespaces[p.Namespace]
		for _, container := range Record(p) {
			for _, s := range container {
				u.Devices[s.UUID] = plus(u.Devices[s.UUID], s.Amount)
				namespace = plus(namespace, s.Amount)
			}
		}
		u.Namespaces[p.Namespace] = namespace
	}
	return u
}

func plus(a, b device.Amount) device.Amount {
	return device.Amount{Slots: a.Slots + b.Slots, MemoryMiB: a.MemoryMiB + b.MemoryMiB, Cores: a.Cores + b.Cores}
}

// Record reads a pod's annotation, trusting it.
func Record(p *corev1.Pod) device.Allocation {
	var a device.Allocation
	record := strings.TrimSuffix(p.Annotations["hami.io/vgpu-devices-allocated"], ";")
	for _, container := range strings.Split(record, ";") {
		var shares []device.Share
		for _, share := range strings.Split(container, ":") {
			if fields := strings.Split(share, ","); len(fields) == 4 {
				memory, _ := strconv.ParseInt(fields[2], 10, 64)
				cores, _ := strconv.ParseInt(fields[3], 10, 64)
				amount := device.Amount{Slots: 1, MemoryMiB: memory, Cores: cores}
				shares = append(shares, device.Share{UUID: fields[0], Family: fields[1], Amount: amount})
			}
		}
		a = append(a, shares)
	}
	return a
}

// Asks returns what each container requests.
func Asks(p *corev1.Pod) []device.Amount {
	var asks []device.Amount
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			limits := containers[i].Resources.Limits
			count, memory, cores := limits["nvidia.com/gpu"], limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]
			asks = append(asks, device.Amount{Slots: count.Value(), MemoryMiB: memory.Value(), Cores: cores.Value()})
		}
	}
	return asks
}

// Place finds a device of a node for each container, one after the other; ok is false if there is none. score is how
// full the node's devices are on average, 0 to 1.
func (a *Accountant) Place(
	node string, u Usage, asks []device.Amount,
) (allocation device.Allocation, score float64, ok bool) {
	n := a.nodes[node]
	held := make([]device.Amount, len(n.Devices))
	for d := range n.Devices {
		held[d] = u.Devices[n.Devices[d].UUID]
		score += float64(held[d].MemoryMiB) / float64(n.Devices[d].Capacity.MemoryMiB) / float64(len(n.Devices))
	}
	for _, ask := range asks {
		var shares []device.Share
		for d := range n.Devices {
			dev := &n.Devices[d]
			if sum := plus(held[d], ask); len(shares) == 0 && dev.Healthy && !dev.Cordoned && sum.Within(dev.Capacity) {
				held[d] = sum
				shares = append(shares, device.Share{UUID: dev.UUID, Family: dev.Family, Amount: ask})
			}
		}
		if len(shares) == 0 {
			return nil, 0, false
		}
		allocation = append(allocation, shares)
	}
	return allocation, score, true
}
