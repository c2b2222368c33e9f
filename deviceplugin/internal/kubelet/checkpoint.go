package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// CheckpointFile is kubelet's record of its allocations, in the folder of the plugin sockets. Kubelet replaces the file
// after each container and before it allocates for the next.
const CheckpointFile = "kubelet_internal_checkpoint"

// Entry is a container in the checkpoint: its ids of the resource, and the plugin's answer for it.
type Entry struct {
	PodUID    string
	Container string
	IDs       []string // sorted
	Response  *pluginapi.ContainerAllocateResponse
}

// checkpoint is the file's content, in the format of Kubernetes 1.20 and later.
type checkpoint struct {
	Data *struct {
		PodDeviceEntries []struct {
			PodUID        *string
			ContainerName *string
			ResourceName  *string
			DeviceIDs     map[int64][]string // by NUMA node
			AllocResp     []byte
		}
		RegisteredDevices map[string][]string
	}
	Checksum *uint64
}

// ReadCheckpoint returns the entries of one resource. A file in any but the known format is an error, because a guess
// could give a container another one's devices. So is a missing file: kubelet writes it once a plugin has listed its
// devices.
func ReadCheckpoint(path, resource string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kubelet's device checkpoint: %w (is --kubelet-dir kubelet's device-plugins "+
			"folder?)", err)
	}
	entries, err := parseCheckpoint(text, resource)
	if err != nil {
		return nil, fmt.Errorf("kubelet's device checkpoint %s is in an unknown format: upgrade the plugin: %w", path,
			err)
	}
	return entries, nil
}

func parseCheckpoint(text []byte, resource string) ([]Entry, error) {
	var c checkpoint
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return nil, fmt.Errorf("byte %d: %w", in.InputOffset(), err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is something after the end, at byte %d", in.InputOffset())
	}
	if c.Data == nil || c.Checksum == nil {
		return nil, errors.New("field Data or Checksum is missing")
	}
	var entries []Entry
	for i, e := range c.Data.PodDeviceEntries {
		if e.PodUID == nil || e.ContainerName == nil || e.ResourceName == nil || e.DeviceIDs == nil {
			return nil, fmt.Errorf("entry %d lacks PodUID, ContainerName, ResourceName or DeviceIDs", i)
		}
		if *e.ResourceName != resource {
			continue
		}
		one := Entry{PodUID: *e.PodUID, Container: *e.ContainerName, Response: &pluginapi.ContainerAllocateResponse{}}
		for _, ids := range e.DeviceIDs {
			one.IDs = append(one.IDs, ids...)
		}
		slices.Sort(one.IDs)
		one.IDs = slices.Compact(one.IDs) // a device of several NUMA nodes is under each
		if err := proto.Unmarshal(e.AllocResp, one.Response); err != nil {
			return nil, fmt.Errorf("AllocResp of pod %s, container %s: %w", one.PodUID, one.Container, err)
		}
		entries = append(entries, one)
	}
	return entries, nil
}
