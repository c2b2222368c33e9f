// Package fakekubelet is kubelet's device manager for tests. It talks to a plugin over real sockets, and chooses ids,
// calls the plugin and writes its checkpoint in the order that kubelet 1.37 was seen to follow. It has nothing else of
// kubelet.
package fakekubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Kubelet is a fake kubelet that runs from New to Stop.
type Kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir      string
	resource string
	server   *grpc.Server

	mu            sync.Mutex
	stopped       bool
	registrations int
	plugin        pluginapi.DevicePluginClient
	connection    *grpc.ClientConn
	devices       map[string]*pluginapi.Device
	held          []Held
	reuse         map[string]bool // ids of init containers of the pod that is being admitted
	reuseFor      string
	gone          map[string]bool // UIDs of pods that are no longer active
	calls         []string
}

// Held is what a container has.
type Held struct {
	PodUID, Container string
	IDs               []string // sorted
	Answer            *pluginapi.ContainerAllocateResponse
}

// checkpoint is the file's content as kubelet writes it.
type checkpoint struct {
	Data struct {
		PodDeviceEntries  []checkpointEntry
		RegisteredDevices map[string][]string
	}
	Checksum uint64
}

type checkpointEntry struct {
	PodUID, ContainerName, ResourceName string
	DeviceIDs                           map[int64][]string
	AllocResp                           []byte
}

// New starts a kubelet on a folder. As a real one it removes the sockets in it, listens for registrations, and restores
// its state from the checkpoint.
func New(dir, resource string) (*Kubelet, error) {
	sockets, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil {
		return nil, err
	}
	for _, s := range sockets {
		if err := os.Remove(s); err != nil && !errors.Is(err, os.ErrNotExist) { // its plugin may have removed it
			return nil, err
		}
	}
	k := &Kubelet{dir: dir, resource: resource, server: grpc.NewServer(), devices: map[string]*pluginapi.Device{},
		gone: map[string]bool{}}
	if err := k.restore(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		return nil, err
	}
	pluginapi.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }()
	return k, nil
}

// Stop ends it. The checkpoint stays.
func (k *Kubelet) Stop() {
	k.server.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped, k.plugin = true, nil // late updates must not overwrite a later kubelet's checkpoint
	if k.connection != nil {
		_ = k.connection.Close()
	}
}

// Register is called by the plugin.
func (k *Kubelet) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if r.Version != pluginapi.Version || r.ResourceName != k.resource {
		return nil, fmt.Errorf("unexpected registration %v", r)
	}
	connection, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.Endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	plugin := pluginapi.NewDevicePluginClient(connection)
	list, err := plugin.ListAndWatch(context.Background(), &pluginapi.Empty{})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, errors.Join(errors.New("stopped"), connection.Close())
	}
	if k.connection != nil {
		_ = k.connection.Close()
	}
	k.registrations++
	k.plugin, k.connection = plugin, connection
	go k.watch(plugin, list)
	return &pluginapi.Empty{}, nil
}

// watch takes the plugin's lists until it is gone.
func (k *Kubelet) watch(plugin pluginapi.DevicePluginClient,
	list grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse]) {
	for {
		update, err := list.Recv()
		k.mu.Lock()
		if k.plugin != plugin {
			k.mu.Unlock()
			return
		}
		clear(k.devices)
		for _, d := range update.GetDevices() { // none when the plugin is gone
			k.devices[d.ID] = d
		}
		_ = k.write()
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Registrations is how often a plugin has registered.
func (k *Kubelet) Registrations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registrations
}

// Devices returns the ids that the plugin lists, with their health, sorted.
func (k *Kubelet) Devices() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for id, d := range k.devices {
		all = append(all, id+" "+d.Health)
	}
	slices.Sort(all)
	return all
}

// Calls returns the plugin calls since the last Calls.
func (k *Kubelet) Calls() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := k.calls
	k.calls = nil
	return calls
}

// Held returns the devices of a pod's container, nil for none.
func (k *Kubelet) Held(uid, container string) *Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.held {
		if k.held[i].PodUID == uid && k.held[i].Container == container {
			held := k.held[i]
			return &held
		}
	}
	return nil
}

// Remove makes a pod inactive; its ids are free when kubelet next allocates.
func (k *Kubelet) Remove(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[uid] = true
}

// write writes the checkpoint by renaming. The caller has the lock.
func (k *Kubelet) write() error {
	var c checkpoint
	c.Checksum = 1 // only kubelet checks it
	c.Data.RegisteredDevices = map[string][]string{k.resource: {}}
	for id := range k.devices {
		c.Data.RegisteredDevices[k.resource] = append(c.Data.RegisteredDevices[k.resource], id)
	}
	for _, h := range k.held {
		answer, err := proto.Marshal(h.Answer)
		if err != nil {
			return err
		}
		e := checkpointEntry{PodUID: h.PodUID, ContainerName: h.Container, ResourceName: k.resource,
			DeviceIDs: map[int64][]string{}, AllocResp: answer}
		for _, id := range h.IDs {
			node := int64(k.node(id))
			e.DeviceIDs[node] = append(e.DeviceIDs[node], id)
		}
		c.Data.PodDeviceEntries = append(c.Data.PodDeviceEntries, e)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := filepath.Join(k.dir, "kubelet_internal_checkpoint")
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// restore reads the checkpoint, if there is one.
func (k *Kubelet) restore() error {
	text, err := os.ReadFile(filepath.Join(k.dir, "kubelet_internal_checkpoint"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var c checkpoint
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	for _, e := range c.Data.PodDeviceEntries {
		h := Held{PodUID: e.PodUID, Container: e.ContainerName, Answer: &pluginapi.ContainerAllocateResponse{}}
		for _, ids := range e.DeviceIDs {
			h.IDs = append(h.IDs, ids...)
		}
		slices.Sort(h.IDs)
		if err := proto.Unmarshal(e.AllocResp, h.Answer); err != nil {
			return err
		}
		k.held = append(k.held, h)
	}
	return nil
}
