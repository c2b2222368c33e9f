// Package kubelet registers the plugin with kubelet, serves kubelet's calls (device plugin API v1beta1) and reads
// kubelet's checkpoint.
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

// Allocator answers calls for one container each. Its errors end up in the pod's events.
type Allocator interface {
	// Preferred chooses size of the available ids, the must ones among them.
	Preferred(ctx context.Context, available, must []string, size int) ([]string, error)
	// Allocate returns what the container gets to which kubelet gives the ids.
	Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// PreStart returns an error if the container with these ids must not start.
	PreStart(ctx context.Context, ids []string) error
}

// Devices are the node's.
type Devices interface {
	// Get returns the devices, whether they are known yet, and a channel that is closed when they change.
	Get() (devices []device.Device, known bool, changed <-chan struct{})
}

// Plugin answers kubelet's calls.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	Devices   Devices
	Allocator Allocator
	Following Following
}

// GetDevicePluginOptions requests kubelet's optional calls.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the replicas now and whenever they change.
func (p *Plugin) ListAndWatch(
	_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	follows := false
	for {
		devices, known, changed := p.Devices.Get()
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
func (p *Plugin) GetPreferredAllocation(
	ctx context.Context, r *pluginapi.PreferredAllocationRequest,
) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		ids, err := p.Allocator.Preferred(ctx, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		one := &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids}
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}

// Allocate answers for one container. Kubelet never sends more in one call. It writes its checkpoint only after a call,
// so that it would not be known which pod the second container belongs to.
func (p *Plugin) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	if n := len(r.ContainerRequests); n != 1 {
		return nil, status.Error(codes.InvalidArgument,
			fmt.Sprintf("Allocate for %d containers in one call, want 1", n))
	}
	answer, err := p.Allocator.Allocate(ctx, r.ContainerRequests[0].DevicesIds)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{answer}}, nil
}

// PreStartContainer lets a container start, or returns why not.
func (p *Plugin) PreStartContainer(
	ctx context.Context, r *pluginapi.PreStartContainerRequest,
) (*pluginapi.PreStartContainerResponse, error) {
	if err := p.Allocator.PreStart(ctx, r.DevicesIds); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}
