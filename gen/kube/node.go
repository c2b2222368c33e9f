package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// Node returns the node as the ledger sees it. A device is healthy only while kubelet reports its family's advertised
// resources as allocatable. An inventory that cannot be read makes the node Unreadable, which names the annotation and
// the part; the devices of other families stay listed.
//
// spec.unschedulable is left to kube-scheduler.
func Node(node *corev1.Node) ledger.Node {
	n := ledger.Node{Name: node.Name}
	var problems []string
	cordoned := wire.DecodeCordon(node.Annotations[wire.CordonAnnotation])
	source := map[string]string{} // by UUID: where it is listed
	for _, f := range classify.Families() {
		from, devices, err := inventory(node, &f)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", from, err))
			continue
		}
		usable := advertised(node, &f)
		for _, d := range devices {
			if other, ok := source[d.UUID]; ok {
				problems = append(problems, fmt.Sprintf("%s: device %s is also in %s: a UUID belongs to one device of "+
					"a node", from, d.UUID, other))
				continue
			}
			source[d.UUID] = from
			d.Healthy = d.Healthy && usable
			d.Cordoned = slices.Contains(cordoned, d.UUID)
			n.Devices = append(n.Devices, d)
		}
	}
	n.Unreadable = strings.Join(problems, "; ")
	return n
}

// inventory returns the devices of one family on a node, and where they are listed, for messages.
func inventory(node *corev1.Node, f *families.Family) (from string, devices []device.Device, err error) {
	if f.NodeAnnotation == "" {
		devices, err = cards(node, f)
		return fmt.Sprintf("capacity of %s", f.Cores), devices, err
	}
	from = "annotation " + f.NodeAnnotation
	text, ok := node.Annotations[f.NodeAnnotation]
	if !ok {
		return from, nil, nil
	}
	devices, err = wire.DecodeInventory(f.Word, text, 1) // inventories are in MiB, whatever the block
	return from, devices, err
}

// advertised reports whether all of the family's advertised resources are allocatable.
func advertised(node *corev1.Node, f *families.Family) bool {
	for _, name := range f.Advertised {
		if q := node.Status.Allocatable[name]; q.Sign() <= 0 {
			return false
		}
	}
	return true
}

// cardReplicas is how many containers may share a card of a family without a count on its node: one per percent of its
// compute.
const cardReplicas = 100

// cards returns the devices of a family whose inventory is the node's capacity: cores / 100 cards that share the memory
// evenly. Their UUIDs are HAMi's (node name, vendor, type word and index), so that HAMi's records stay readable.
func cards(node *corev1.Node, f *families.Family) ([]device.Device, error) {
	cores, err := capacity(node, f.Cores)
	if err != nil {
		return nil, err
	}
	blocks, err := capacity(node, f.Memory)
	if err != nil {
		return nil, err
	}
	count := cores / device.WholeCores
	switch {
	case count == 0:
		return nil, nil
	case count > families.MaxDevices:
		return nil, fmt.Errorf("%d cards are more than %d", count, families.MaxDevices)
	case blocks/count > device.MaxMemoryMiB/f.MemoryBlockMiB:
		return nil, fmt.Errorf("%s: %d blocks of %d MiB on %d cards are more than %d MiB each",
			f.Memory, blocks, f.MemoryBlockMiB, count, device.MaxMemoryMiB)
	}
	vendor, _, _ := strings.Cut(string(f.Count), ".")
	devices := make([]device.Device, count)
	for i := range devices {
		devices[i] = device.Device{
			UUID:  fmt.Sprintf("%s-%s-%s-%d", node.Name, vendor, strings.ToLower(f.Word), i),
			Index: i, Family: f.Word, Model: f.Word, Healthy: true,
			Capacity: device.Amount{
				Slots: cardReplicas, MemoryMiB: blocks * f.MemoryBlockMiB / count, Cores: device.WholeCores,
			},
		}
	}
	return devices, nil
}

// capacity returns a whole number from a node's capacity, 0 if the resource is absent.
func capacity(node *corev1.Node, name corev1.ResourceName) (int64, error) {
	q := node.Status.Capacity[name]
	value, ok := q.AsInt64()
	if !ok || value < 0 {
		return 0, fmt.Errorf("%s: %s is no whole number of at least 0", name, q.String())
	}
	return value, nil
}
