// Package kubelet speaks with kubelet: it registers the plugin and serves its calls (device plugin API
// v1beta1), and reads what kubelet itself has noted of its allocations.
package kubelet

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
)

// Allocator decides about kubelet's requests, each for one container. Its errors end up in the pod's
// events.
type Allocator interface {
	// Preferred chooses size of the available ids, the must ones among them.
	Preferred(ctx context.Context, available, must []string, size int) ([]string, error)
	// Allocate says what a container gets that kubelet gives the ids to.
	Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// PreStart refuses the start of a container that holds the ids.
	PreStart(ctx context.Context, ids []string) error
}

// Plugin answers kubelet's calls.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	// Devices returns the devices as they are now and a channel that is closed when they change.
	Devices   func() (devices []device.Device, known bool, changed <-chan struct{})
	Allocator Allocator
	Following Following
}

// GetDevicePluginOptions asks kubelet for its optional calls.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the replicas now and whenever they change.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	follows := false
	for {
		devices, known, changed := p.Devices()
		if known {
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: Replicas(devices)}); err != nil {
				return err
			}
			if !follows {
				follows = true
				p.Following.add(1)
				defer p.Following.add(-1)
			}
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// GetPreferredAllocation answers for each container of the request; kubelet asks for one at a time.
func (p *Plugin) GetPreferredAllocation(ctx context.Context, r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		ids, err := p.Allocator.Preferred(ctx, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return answer, nil
}

// Allocate answers for one container. Kubelet never asks for more in one call; for whom the second would
// be could not be told, because kubelet notes nothing between them.
func (p *Plugin) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	if n := len(r.ContainerRequests); n != 1 {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("Allocate for %d containers in one call, want 1", n))
	}
	answer, err := p.Allocator.Allocate(ctx, r.ContainerRequests[0].DevicesIds)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{answer}}, nil
}

// PreStartContainer lets a container start, or says why not.
func (p *Plugin) PreStartContainer(ctx context.Context, r *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	if err := p.Allocator.PreStart(ctx, r.DevicesIds); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}
