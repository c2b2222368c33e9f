package kubelet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/fakekubelet"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/gen/await"
)

const resource = "nvidia.com/gpu"

// unable allocates nothing.
type unable struct{}

var errUnable = errors.New("unable")

func (unable) Preferred(context.Context, []string, []string, int) ([]string, error) {
	return nil, errUnable
}

func (unable) Allocate(context.Context, []string) (*pluginapi.ContainerAllocateResponse, error) {
	return nil, errUnable
}

func (unable) PreStart(context.Context, []string) error { return errUnable }

// silent observes registrations.
type silent struct{}

func (silent) Registered(error) {}

// start runs a plugin for the length of a test. end ends it earlier.
func start(
	t *testing.T, allocator kubelet.Allocator, devices ...device.Device,
) (dir string, current *inventory.Current, server *kubelet.Server, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	current = &inventory.Current{}
	current.Set(devices)
	server = &kubelet.Server{
		Dir: dir, Socket: "phasegpu.sock", Resource: resource, Observer: silent{},
		Plugin: &kubelet.Plugin{Devices: current, Allocator: allocator},
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "phasegpu.sock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket was left behind: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir, current, server, end
}

func newKubelet(t *testing.T, dir string) *fakekubelet.Kubelet {
	t.Helper()
	k, err := fakekubelet.New(dir, resource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k
}

func gpu(uuid string, replicas int64) device.Device {
	return device.Device{UUID: uuid, Family: "NVIDIA", Capacity: device.Amount{Slots: replicas, MemoryMiB: 1000,
		Cores: 100}, Healthy: true}
}

func TestHealthAndNumberOfDevicesFollowTheInventory(t *testing.T) {
	mig := gpu("G2", 2)
	mig.Mode = device.MIG
	dir, current, _, _ := start(t, unable{}, gpu("G0", 2), gpu("G1", 1), mig)
	k := newKubelet(t, dir)
	want := []string{"G0::0 Healthy", "G0::1 Healthy", "G1::0 Healthy"}
	await.Until(t, "the list", func() bool { return slices.Equal(k.Devices(), want) })

	sick := gpu("G0", 2)
	sick.Healthy = false
	current.Set([]device.Device{sick})
	want = []string{"G0::0 Unhealthy", "G0::1 Unhealthy"}
	await.Until(t, "the changed list", func() bool { return slices.Equal(k.Devices(), want) })
	if n := k.Registrations(); n != 1 {
		t.Errorf("%d registrations, want 1: a change of the list is no reason for another", n)
	}
}

// A kubelet that restarts finds the plugin at once.
func TestRegistersAgainWithARestartedKubelet(t *testing.T) {
	dir, _, server, _ := start(t, unable{}, gpu("G0", 1))
	if server.Ready() == nil {
		t.Error("ready without a kubelet")
	}
	for range 5 {
		k := newKubelet(t, dir)
		await.Until(t, "the registration", func() bool {
			return k.Registrations() == 1 && len(k.Devices()) == 1 &&
				server.Ready() == nil
		})
		k.Stop()
	}
}

func TestServesAgainWhenItsSocketIsGone(t *testing.T) {
	dir, _, _, _ := start(t, unable{}, gpu("G0", 1))
	k := newKubelet(t, dir)
	await.Until(t, "the registration", func() bool { return k.Registrations() == 1 })
	if err := os.Remove(filepath.Join(dir, "phasegpu.sock")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "another registration", func() bool { return k.Registrations() == 2 && len(k.Devices()) == 1 })
}

func TestReplicas(t *testing.T) {
	near := gpu("G0", 1)
	near.NUMA = 1
	nowhere := gpu("G1", 1)
	nowhere.NUMA = -1
	var got []string
	for _, r := range kubelet.Replicas([]device.Device{near, nowhere}) {
		node := "none"
		if r.Topology != nil {
			node = r.Topology.Nodes[0].String()
		}
		got = append(got, r.ID+" "+node+" "+kubelet.DeviceOf(r.ID))
	}
	if diff := cmp.Diff([]string{"G0::0 ID:1 G0", "G1::0 none G1"}, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

// slow waits before it answers.
type slow struct {
	unable
	called, answer chan struct{}
}

func (s slow) PreStart(context.Context, []string) error {
	close(s.called)
	<-s.answer
	return nil
}

// A plugin that ends still answers the calls under way; kubelet's watch of the list is cut off.
func TestEndsWithTheCallsUnderWayAnswered(t *testing.T) {
	s := slow{called: make(chan struct{}), answer: make(chan struct{})}
	dir, _, _, end := start(t, s, gpu("G0", 1))
	k := newKubelet(t, dir)
	await.Until(t, "the list", func() bool { return len(k.Devices()) == 1 })

	connection, err := grpc.NewClient("unix://"+filepath.Join(dir, "phasegpu.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := pluginapi.NewDevicePluginClient(connection).PreStartContainer(t.Context(),
			&pluginapi.PreStartContainerRequest{})
		answered <- err
	}()
	<-s.called
	end()
	await.Until(t, "the end of the watch", func() bool { return len(k.Devices()) == 0 })
	close(s.answer)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
}
