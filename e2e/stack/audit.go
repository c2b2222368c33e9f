package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Books are what devices and namespaces are charged, as Ledger.Reserved and Ledger.Used have them.
type Books struct {
	Reserved map[string]Amount // by "node/uuid"
	Used     map[string]Amount // by "namespace/family"
}

// Recompute works out, from the pods that the API server has and from nothing else, what the books must be.
// It is naive on purpose: for each pod it adds up each remaining phase and takes the largest. release is the
// policy of pods that name none.
func (c *Cluster) Recompute(ctx context.Context, release phase.Release) (Books, error) {
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Books{}, err
	}
	books := Books{map[string]Amount{}, map[string]Amount{}}
	for i := range pods.Items {
		p := kube.LedgerPod(&pods.Items[i], release)
		if p.Unreadable != "" {
			return Books{}, fmt.Errorf("pod %s/%s: %s", p.Namespace, p.Name, p.Unreadable)
		}
		onDevice, ofFamily := remaining(&p)
		for key, a := range onDevice {
			add(books.Reserved, key, device.Amount(a))
		}
		for key, a := range ofFamily {
			add(books.Used, key, device.Amount(a))
		}
	}
	return books, nil
}

// remaining returns the largest remaining phase of a pod, on each device by "node/uuid" and in the namespace by
// "namespace/family".
func remaining(p *ledger.Pod) (onDevice, ofFamily map[string]Amount) {
	onDevice, ofFamily = map[string]Amount{}, map[string]Amount{}
	for k := p.First; k < p.Classes.Len(); k++ {
		phaseOnDevice, phaseOfFamily := map[string]Amount{}, map[string]Amount{}
		for position, shares := range p.Allocation {
			if !p.Classes.Alive(k, position) {
				continue
			}
			for _, share := range shares {
				add(phaseOnDevice, p.Node+"/"+share.UUID, share.Amount)
				add(phaseOfFamily, p.Namespace+"/"+share.Family, share.Amount)
			}
		}
		raise(onDevice, phaseOnDevice)
		raise(ofFamily, phaseOfFamily)
	}
	return onDevice, ofFamily
}

func add(sums map[string]Amount, key string, a device.Amount) {
	s := sums[key]
	sums[key] = Amount{s.Slots + a.Slots, s.MemoryMiB + a.MemoryMiB, s.Cores + a.Cores}
}

func raise(most, to map[string]Amount) {
	for key, a := range to {
		m := most[key]
		most[key] = Amount{max(m.Slots, a.Slots), max(m.MemoryMiB, a.MemoryMiB), max(m.Cores, a.Cores)}
	}
}

// AwaitAudit waits until the extender's books are what Recompute gets, for the default release policy, and
// says where they differ if that does not come about. Call it when nothing changes any more.
func (c *Cluster) AwaitAudit(ctx context.Context) error {
	return c.AwaitBooks(ctx, "the books equal a recomputation", func(l *Ledger) error {
		want, err := c.Recompute(ctx, phase.PerInit)
		if err != nil {
			return err
		}
		return errors.Join(
			differ("device", want.Reserved, l.Reserved()),
			differ("namespace", want.Used, l.Used()))
	})
}

// differ lists where the books are not as wanted.
func differ(what string, want, got map[string]Amount) error {
	var errs []error
	keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if want[key] != got[key] {
			errs = append(errs, fmt.Errorf("%s %s: the books say %+v, the pods %+v", what, key, got[key], want[key]))
		}
	}
	return errors.Join(errs...)
}

// OverCommitted lists the devices on which more is reserved than they have, as "node/uuid".
func (l *Ledger) OverCommitted() []string {
	var over []string
	for _, n := range l.Nodes {
		for _, d := range n.Devices {
			r, c := d.Reserved, d.Capacity
			if r.Slots > c.Slots || r.MemoryMiB > c.MemoryMiB || r.Cores > c.Cores {
				over = append(over, n.Name+"/"+d.UUID)
			}
		}
	}
	return over
}
