package allocate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
)

// Allocator answers kubelet's calls. It has no state.
type Allocator struct {
	Node       string
	Resource   string                                          // the count resource
	Pods       func(ctx context.Context) ([]corev1.Pod, error) // all pods bound to the node, from the API server itself
	Checkpoint func() ([]kubelet.Entry, error)
	Devices    func() []device.Device // sorted by index
	Isolation  isolation.Isolation
	CDIKind    string // see isolation.Visible
	// Left is told what earlier containers left behind and cannot be removed. That is no reason to refuse:
	// a container could otherwise keep all after it from starting.
	Left func(error)
}

// whose returns whose call this can be, at least one pod, and kubelet's checkpoint.
func (a *Allocator) whose(ctx context.Context, ids int) ([]turn, []kubelet.Entry, error) {
	pods, err := a.Pods(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the pods of node %s: %w", a.Node, err)
	}
	// Read after the pods: what kubelet wrote before this call is there.
	entries, err := a.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	turns, err := a.turns(pods, entries)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range turns {
		if n := len(t.allocation[t.position]); n != ids {
			return nil, nil, fmt.Errorf("kubelet asks for %d of %s, expected was %s", ids, a.Resource, t.describe())
		}
	}
	return turns, entries, nil
}

// Preferred implements kubelet.Allocator: replicas of the recorded devices, as far as there are any.
func (a *Allocator) Preferred(ctx context.Context, available, must []string, size int) ([]string, error) {
	turns, _, err := a.whose(ctx, size)
	if err != nil {
		return nil, err
	}
	return prefer(turns[0].allocation[turns[0].position], available, must, size), nil
}

// prefer chooses size of the available ids: the must ones, then one of each device that is not among them
// yet, then any.
func prefer(shares []device.Share, available, must []string, size int) []string {
	chosen := slices.Clone(must)
	has := func(uuid string) bool {
		return slices.ContainsFunc(chosen, func(id string) bool { return kubelet.DeviceOf(id) == uuid })
	}
	available = slices.Sorted(slices.Values(available)) // kubelet's order is random
	for _, s := range shares {
		i := slices.IndexFunc(available, func(id string) bool { return kubelet.DeviceOf(id) == s.UUID })
		if len(chosen) < size && i >= 0 && !has(s.UUID) {
			chosen = append(chosen, available[i])
		}
	}
	for _, id := range available {
		if len(chosen) < size && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}

// Allocate implements kubelet.Allocator: the container whose turn it is gets the devices of its record,
// whatever the ids.
func (a *Allocator) Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	turns, entries, err := a.whose(ctx, len(ids))
	if err != nil {
		return nil, err
	}
	t := turns[0]
	devices := a.Devices()
	shares, err := isolation.Sort(t.allocation[t.position], devices)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.describe(), err)
	}
	for _, d := range devices {
		if !slices.ContainsFunc(shares, func(s device.Share) bool { return s.UUID == d.UUID }) {
			continue
		}
		switch {
		case d.Mode == device.MIG:
			return nil, fmt.Errorf("%s: device %s is in MIG mode and cannot be shared", t.describe(), d.UUID)
		case !d.Healthy:
			return nil, fmt.Errorf("%s: device %s is unhealthy", t.describe(), d.UUID)
		}
	}
	// Without it the container runtime would mount empty folders in its place.
	if err := a.Isolation.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", t.describe(), err)
	}
	live := make([]*pluginapi.ContainerAllocateResponse, len(entries))
	for i, e := range entries {
		live[i] = e.Response
	}
	if err := a.Isolation.Sweep(live); err != nil {
		a.Left(err)
	}
	answer := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{}, Annotations: map[string]string{EntryAnnotation: entry(turns)}}
	c := isolation.Container{PodUID: string(t.pod.UID), Name: t.container(), Shares: shares}
	isolation.Visible(answer, c, a.CDIKind)
	if err := a.Isolation.Apply(answer, c); err != nil {
		return nil, fmt.Errorf("%s: %w", t.describe(), err)
	}
	return answer, nil
}

// entry writes for whom an answer is meant.
func entry(turns []turn) string {
	parts := make([]string, len(turns))
	for i, t := range turns {
		parts[i] = t.entry()
	}
	return strings.Join(parts, ",")
}

// meant reports whether a checkpoint's entry holds an answer that was meant for its container.
func meant(e kubelet.Entry) bool {
	return slices.Contains(strings.Split(e.Response.Annotations[EntryAnnotation], ","), e.PodUID+"/"+e.Container)
}

// PreStart implements kubelet.Allocator: a container may start when the answer kubelet holds for it was
// meant for it. Nothing but kubelet's checkpoint is asked, so containers restart while the API server is
// away. An init container and one after it may hold the same ids; then both must be right.
func (a *Allocator) PreStart(_ context.Context, ids []string) error {
	entries, err := a.Checkpoint()
	if err != nil {
		return err
	}
	ids = slices.Sorted(slices.Values(ids))
	found := false
	for _, e := range entries {
		if !slices.Equal(e.IDs, ids) {
			continue
		}
		found = true
		if !meant(e) {
			return fmt.Errorf("container %s of pod UID %s holds devices that were meant for %s, so it must not start: delete the pod",
				e.Container, e.PodUID, intended(e))
		}
	}
	if !found {
		return fmt.Errorf("kubelet's checkpoint knows no container with %s ids %v", a.Resource, ids)
	}
	return nil
}

func intended(e kubelet.Entry) string {
	if text := e.Response.Annotations[EntryAnnotation]; text != "" {
		return "pod UID and container " + text
	}
	return "nobody that phasegpu knows (another device plugin allocated them)"
}
