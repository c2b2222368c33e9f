package allocate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// reach is where a container's devices must be to be on the NUMA nodes of kubelet's ids. Which devices of a NUMA node
// they are is for the record alone to say.
type reach struct {
	may  []int // they may be on these nodes
	must []int // each of these nodes must have one
}

// holds reports whether devices on some NUMA nodes are within reach.
func (r reach) holds(nodes []int) bool { return subset(nodes, r.may) && subset(r.must, nodes) }

// nodes are where kubelet places the container.
func (r reach) nodes() []int {
	if len(r.must) > 0 {
		return r.must
	}
	return r.may
}

func subset(some, all []int) bool {
	return !slices.ContainsFunc(some, func(n int) bool { return !slices.Contains(all, n) })
}

// numa is the NUMA node of each device, by UUID.
type numa map[string]int

func numaOf(devices []device.Device) numa {
	m := numa{}
	for _, d := range devices {
		m[d.UUID] = d.NUMA
	}
	return m
}

// of returns the NUMA node of a device or of an id, -1 for none.
func (m numa) of(id string) int {
	if node, ok := m[kubelet.DeviceOf(id)]; ok {
		return node
	}
	return -1
}

// ids returns the NUMA nodes that ids are on, ascending.
func (m numa) ids(ids []string) []int {
	var nodes []int
	for _, id := range ids {
		nodes = append(nodes, m.of(id))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// shares returns the NUMA nodes that a record is on, ascending.
func (m numa) shares(shares []device.Share) []int { return m.ids(uuids(shares)) }

func uuids(shares []device.Share) []string {
	all := make([]string, len(shares))
	for i, s := range shares {
		all[i] = s.UUID
	}
	return all
}

// settle returns the turns, like whose, after a refit if the pod opted in and its record is out of reach. before
// reports whether the refit service was already asked for this container; then a best-effort pod keeps its record.
func (a *Allocator) settle(
	ctx context.Context, size int, r reach, before func(turn, []kubelet.Entry) bool,
) ([]turn, []kubelet.Entry, error) {
	turns, entries, err := a.whose(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	m := numaOf(a.State.Devices())
	t := turns[0]
	if t.alignment == wire.Recorded || r.holds(m.shares(t.shares())) ||
		t.alignment == wire.BestEffort && before(t, entries) {
		return turns, entries, nil
	}
	refused := a.refit(ctx, t, r)
	// Whatever the answer, the record counts.
	if turns, entries, err = a.whose(ctx, size); err != nil {
		return nil, nil, err
	}
	t = turns[0]
	if nodes := m.shares(t.shares()); t.alignment == wire.Strict && !r.holds(nodes) {
		if refused == nil {
			refused = errors.New("the refit service left its record as it is")
		}
		return nil, nil, fmt.Errorf("%s: recorded is %s on NUMA node %s, kubelet's ids are on %s, and its annotation "+
			"%s is %v: %w",
			t.describe(), strings.Join(uuids(t.shares()), ","), numbers(nodes), numbers(r.nodes()),
			wire.NUMAAlignment, wire.Strict, refused)
	}
	return turns, entries, nil
}

// refit asks the refit service, once, to move a container to where kubelet wants it.
func (a *Allocator) refit(ctx context.Context, t turn, r reach) error {
	if a.Refit == nil {
		return errors.New("no refit service is configured (--refit-url)")
	}
	q := &refit.Request{
		Pod:       refit.Pod{Namespace: t.pod.Namespace, Name: t.pod.Name, UID: string(t.pod.UID)},
		Node:      a.Node,
		Container: refit.Container{Name: t.container(), Position: t.position},
		Family:    t.shares()[0].Family,
	}
	for _, d := range a.State.Devices() {
		if d.Healthy && d.Mode != device.MIG && slices.Contains(r.nodes(), d.NUMA) {
			q.Allowed = append(q.Allowed, d.UUID)
		}
	}
	if len(q.Allowed) == 0 {
		return fmt.Errorf("node %s has no healthy device on NUMA node %s", a.Node, numbers(r.nodes()))
	}
	_, err := a.Refit.Ask(ctx, q)
	return err
}

// asked reports whether kubelet has called GetPreferredAllocation for the ids that it now allocates. It does not call
// it for ids that the pod's init containers left, nor when the NUMA nodes of the other ids have no more. In doubt it is
// false.
func (a *Allocator) asked(t turn, ids []string, entries []kubelet.Entry) bool {
	kept := keptFor(t, entries)
	devices := a.State.Devices()
	m := numaOf(devices)
	fresh := m.ids(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return kept[id] }))
	held := map[string]bool{}
	for _, e := range entries {
		for _, id := range e.IDs {
			held[id] = true
		}
	}
	return slices.ContainsFunc(kubelet.Replicas(devices), func(d *pluginapi.Device) bool {
		return d.Health == pluginapi.Healthy && !held[d.ID] && !slices.Contains(ids, d.ID) &&
			slices.Contains(fresh, m.of(d.ID))
	})
}

// keptFor returns the ids of a pod's init containers that kubelet keeps for the container whose turn it is.
func keptFor(t turn, entries []kubelet.Entry) map[string]bool {
	ids := map[string]bool{}
	classes := kube.Classes(&t.pod.Spec)
	for position := range t.position {
		i := slices.IndexFunc(entries, func(e kubelet.Entry) bool {
			return e.PodUID == string(t.pod.UID) && e.Container == kube.Container(&t.pod.Spec, position).Name
		})
		if i < 0 {
			continue
		}
		for _, id := range entries[i].IDs {
			ids[id] = classes[position] == phase.Init
		}
	}
	return ids
}

// prefer chooses size of the available ids, the must ones among them: for each recorded device one of its
// own, else one of its NUMA node, else any.
func prefer(m numa, recorded []device.Share, available, must []string, size int) []string {
	available = slices.Sorted(slices.Values(available)) // kubelet's order is random
	pool := append(slices.Clone(must), available...)
	chosen := slices.Clone(must)
	used := map[string]bool{}
	open := uuids(recorded) // those without an id
	for _, suits := range []func(id, uuid string) bool{
		func(id, uuid string) bool { return kubelet.DeviceOf(id) == uuid },
		func(id, uuid string) bool { return m.of(id) == m.of(uuid) },
		func(string, string) bool { return true },
	} {
		open = slices.DeleteFunc(open, func(uuid string) bool {
			i := slices.IndexFunc(pool, func(id string) bool { return !used[id] && suits(id, uuid) })
			if i < 0 {
				return false
			}
			used[pool[i]] = true
			if len(chosen) < size && !slices.Contains(chosen, pool[i]) {
				chosen = append(chosen, pool[i])
			}
			return true
		})
	}
	return chosen
}

// numbers writes NUMA nodes as "0,1"; a device without one is on "none".
func numbers(nodes []int) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = fmt.Sprint(n)
		if n < 0 {
			words[i] = "none"
		}
	}
	return strings.Join(words, ",")
}
