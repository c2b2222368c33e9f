package allocate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// State is what the allocator reads at every call.
type State interface {
	// Pods reads all pods bound to the node from the API server, consistently.
	Pods(context.Context) ([]corev1.Pod, error)
	Checkpoint() ([]kubelet.Entry, error)
	// Devices are the node's, sorted by index.
	Devices() []device.Device
	// Problem reports an error that is no reason to refuse a call. "cache": a cache that an earlier container left
	// cannot be removed. "record": a record cannot be read at a container's start, which must work without the API
	// server. "pods": the pods cannot be read when kubelet asks which ids are preferred.
	Problem(about string, err error)
}

// Refitter is the refit service.
type Refitter interface {
	Ask(context.Context, *refit.Request) (*refit.Answer, error)
}

// Allocator answers kubelet's calls. It has no state of its own.
type Allocator struct {
	Node      string
	Resource  string // the count resource
	State     State
	Isolation isolation.Isolation
	CDIKind   string   // see isolation.Visible
	Refit     Refitter // nil for none
}

// unread is the error when the pods cannot be read.
type unread struct{ error }

func (e unread) Unwrap() error { return e.error }

// whose returns the turns that this call can be for, at least one, and kubelet's checkpoint.
func (a *Allocator) whose(ctx context.Context, ids int) ([]turn, []kubelet.Entry, error) {
	pods, err := a.State.Pods(ctx)
	if err != nil {
		return nil, nil, unread{fmt.Errorf("reading the pods of node %s: %w", a.Node, err)}
	}
	// After the pods, so that it has all that kubelet wrote before this call.
	entries, err := a.State.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	turns, err := a.turns(pods, entries)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range turns {
		if n := len(t.shares()); n != ids {
			return nil, nil, fmt.Errorf("kubelet asks for %d of %s, expected was %s", ids, a.Resource, t.describe())
		}
	}
	return turns, entries, nil
}

// Preferred implements kubelet.Allocator. It prefers ids of the recorded devices. It prefers none if the pods cannot be
// read: kubelet would reject the pod for an error, and Allocate, which comes next, reads again.
func (a *Allocator) Preferred(ctx context.Context, available, must []string, size int) ([]string, error) {
	m := numaOf(a.State.Devices())
	never := func(turn, []kubelet.Entry) bool { return false }
	turns, _, err := a.settle(ctx, size, reach{may: m.ids(available), must: m.ids(must)}, never)
	if away := (unread{}); errors.As(err, &away) {
		a.State.Problem("pods", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return prefer(m, turns[0].shares(), available, must, size), nil
}

// Allocate implements kubelet.Allocator. The container whose turn it is gets its recorded devices, whatever the ids.
func (a *Allocator) Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	devices := a.State.Devices()
	nodes := numaOf(devices).ids(ids)
	before := func(t turn, entries []kubelet.Entry) bool { return a.asked(t, ids, entries) }
	turns, entries, err := a.settle(ctx, len(ids), reach{may: nodes, must: nodes}, before)
	if err != nil {
		return nil, err
	}
	t := turns[0]
	shares, err := isolation.Sort(t.shares(), devices)
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
	// Without its files the container runtime would mount empty folders in their place.
	if err := a.Isolation.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", t.describe(), err)
	}
	live := make([]*pluginapi.ContainerAllocateResponse, len(entries))
	for i, e := range entries {
		live[i] = e.Response
	}
	if err := a.Isolation.Sweep(live); err != nil {
		a.State.Problem("cache", err)
	}
	answer := &pluginapi.ContainerAllocateResponse{
		Envs: map[string]string{}, Annotations: map[string]string{EntryAnnotation: entry(turns)},
	}
	if t.alignment != wire.Recorded {
		answer.Annotations[DevicesAnnotation] = strings.Join(uuids(t.shares()), ",")
	}
	c := isolation.Container{PodUID: string(t.pod.UID), Name: t.container(), Shares: shares}
	isolation.Visible(answer, c, a.CDIKind)
	if err := a.Isolation.Apply(answer, c); err != nil {
		return nil, fmt.Errorf("%s: %w", t.describe(), err)
	}
	return answer, nil
}

// entry returns the entry annotation of an answer for these turns.
func entry(turns []turn) string {
	parts := make([]string, len(turns))
	for i, t := range turns {
		parts[i] = t.entry()
	}
	return strings.Join(parts, ",")
}

// meant reports whether a container got an answer that was for it.
func meant(e kubelet.Entry) bool {
	return slices.Contains(strings.Split(e.Response.Annotations[EntryAnnotation], ","), e.PodUID+"/"+e.Container)
}

// PreStart implements kubelet.Allocator. A container may start if it got an answer that was for it. That needs only
// kubelet's checkpoint, so containers restart while the API server is away. An init container and a later one may hold
// the same ids; then both must be right.
func (a *Allocator) PreStart(ctx context.Context, ids []string) error {
	entries, err := a.State.Checkpoint()
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
			return fmt.Errorf("container %s of pod UID %s holds devices that were meant for %s, so it must not start: "+
				"delete the pod", e.Container, e.PodUID, intended(e))
		}
		if err := a.moved(ctx, e); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("kubelet's checkpoint knows no container with %s ids %v", a.Resource, ids)
	}
	return nil
}

// moved returns an error if a container got other devices than its pod's record names now: a refit may be carried out
// after the plugin gave up on it and served the container.
func (a *Allocator) moved(ctx context.Context, e kubelet.Entry) error {
	given, ok := e.Response.Annotations[DevicesAnnotation]
	if !ok {
		return nil // its record cannot change
	}
	ctx, cancel := context.WithTimeout(ctx, refit.Budget)
	defer cancel()
	pods, err := a.State.Pods(ctx)
	if err != nil {
		a.State.Problem("record", fmt.Errorf("container %s of pod UID %s starts with its record unread: %w",
			e.Container, e.PodUID, err))
		return nil
	}
	for i := range pods {
		if string(pods[i].UID) != e.PodUID {
			continue
		}
		if recorded, differs := elsewhere(&pods[i], e); differs {
			return fmt.Errorf("container %s of pod %s/%s was given %s and is now recorded on %s, where its memory is "+
				"booked, "+
				"so it must not start: delete the pod", e.Container, pods[i].Namespace, pods[i].Name, given, recorded)
		}
	}
	return nil
}

// elsewhere reports whether an answer names its devices and the pod's record now names others.
func elsewhere(pod *corev1.Pod, e kubelet.Entry) (recorded string, differs bool) {
	given, ok := e.Response.Annotations[DevicesAnnotation]
	allocation, err := kube.Allocation(pod)
	if !ok || err != nil {
		return "", false // turns reports an unreadable record
	}
	for i, shares := range allocation {
		if kube.Container(&pod.Spec, i).Name == e.Container {
			recorded = strings.Join(uuids(shares), ",")
		}
	}
	return recorded, recorded != given
}

func intended(e kubelet.Entry) string {
	if text := e.Response.Annotations[EntryAnnotation]; text != "" {
		return "pod UID and container " + text
	}
	return "no container that phasegpu knows (another device plugin allocated them)"
}
