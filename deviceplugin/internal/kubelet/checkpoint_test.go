package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// As kubelet 1.37 writes it, with another plugin's resource. AllocResp is the environment A=b.
const written = `{"Data":{"PodDeviceEntries":[
	{"PodUID":"u1","ContainerName":"init","ResourceName":"nvidia.com/gpu","DeviceIDs":{"1":["b"],"0":["c","a"]},"AllocResp":"CgYKAUESAWI="},
	{"PodUID":"u1","ContainerName":"app","ResourceName":"example.com/nic","DeviceIDs":{"-1":["eth0"]},"AllocResp":"AA=="}
	],"RegisteredDevices":{"nvidia.com/gpu":["a","b","c","d"]}},"Checksum":2745394323}`

func TestReadCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Entry
		err  string
	}{
		"as kubelet writes it": {
			text: written,
			want: []Entry{{PodUID: "u1", Container: "init", IDs: []string{"a", "b", "c"},
				Response: &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"A": "b"}}}},
		},
		"nothing allocated": {text: `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`},
		"before 1.20, ids without NUMA nodes": {
			text: `{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"nvidia.com/gpu","DeviceIDs":["a"],"AllocResp":""}],"RegisteredDevices":{}},"Checksum":1}`,
			err:  "unknown format",
		},
		"a field of a later kubelet": {text: strings.Replace(written, `"Checksum"`, `"Version":3,"Checksum"`,
			1), err: "Version"},
		"a field of a later kubelet's entry": {text: strings.Replace(written, `"PodUID":"u1",`,
			`"PodUID":"u1","Claim":"x",`, 1), err: "Claim"},
		"no container name": {text: strings.Replace(written, `"ContainerName":"init",`, ``, 1),
			err: "entry 0 lacks"},
		"no data":      {text: `{"Checksum":1}`, err: "missing"},
		"another file": {text: `{"policyName":"static"}`, err: "policyName"},
		"an answer that is none": {text: strings.Replace(written, "CgYKAUESAWI=", "/////w==", 1),
			err: "AllocResp of pod u1, container init"},
		"cut short":     {text: written[:100], err: "unexpected EOF"},
		"two documents": {text: written + written, err: "after the end"},
		"empty":         {text: "", err: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), CheckpointFile)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadCheckpoint(path, "nvidia.com/gpu")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one about %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got,
				cmpopts.IgnoreUnexported(pluginapi.ContainerAllocateResponse{})); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ReadCheckpoint(filepath.Join(t.TempDir(), CheckpointFile), "nvidia.com/gpu"); err == nil {
		t.Error("a missing checkpoint was taken for an empty one")
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":[]},"AllocResp":null}],"RegisteredDevices":null},"Checksum":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseCheckpoint(text, "nvidia.com/gpu")
		if err != nil && entries != nil {
			t.Errorf("entries beside the error %v", err)
		}
		for _, e := range entries {
			if e.Response == nil {
				t.Error("an entry without an answer")
			}
		}
	})
}
