package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// Snapshot is a pod as a real kubelet reported it, and what is right to reserve for it then.
type Snapshot struct {
	Name string     `json:"name"`
	Pod  corev1.Pod `json:"pod"`
	Want struct {
		Reserved struct {
			Total struct {
				MemoryMiB int64 `json:"memoryMiB"`
			} `json:"total"`
		} `json:"reserved"`
	} `json:"want"`
}

// Reruns returns what a real kubelet reported, in order, while a pod's init containers ran again in two
// ways. The files are those that core is tested with, in the checkout that the working directory is in.
func Reruns() ([]Snapshot, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, "core", "testdata", "vectors", "kubelet-rerun.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Snapshot
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}
