package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/timeline"
)

// vector is one example of core/testdata/vectors: a pod and what explain must say about it.
type vector struct {
	Name    string          `json:"name"`
	Release string          `json:"release"`
	Pod     json.RawMessage `json:"pod"`
	Want    wants           `json:"want"`
}

// wants is the part of explain's JSON that the vectors prescribe.
type wants struct {
	Peak           map[string]*int64 `json:"peak"`
	CompletedInits int               `json:"completedInits"`
	Phases         []struct {
		Name  string   `json:"name"`
		Alive []string `json:"alive"`
	} `json:"phases"`
	Reserved struct {
		PerDevice []map[string]any `json:"perDevice"`
		Total     map[string]int64 `json:"total"`
	} `json:"reserved"`
}

// readVectors returns the vectors by file.
func readVectors(t *testing.T) map[string][]vector {
	t.Helper()
	paths, err := filepath.Glob("../../../core/testdata/vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files of vectors found: %v", len(paths), err)
	}
	all := map[string][]vector{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []vector
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[path] = vectors
	}
	return all
}

func TestExplainAgreesWithTheVectors(t *testing.T) {
	for path, vectors := range readVectors(t) {
		byRelease := map[string][]vector{}
		for _, v := range vectors {
			byRelease[v.Release] = append(byRelease[v.Release], v)
		}
		for release, vectors := range byRelease {
			list := map[string]any{"apiVersion": "v1", "kind": "List"}
			var items []json.RawMessage
			for _, v := range vectors {
				items = append(items, v.Pod)
			}
			list["items"] = items
			input, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := command(t, string(input), "explain", "-f", "-", "-o", "json", "--release", release)
			if code != exitFine || stderr != "" {
				t.Fatalf("%s, %s: exit code %d, %s", path, release, code, stderr)
			}
			var got struct {
				Pods []wants `json:"pods"`
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Pods) != len(vectors) {
				t.Fatalf("%s, %s: %d pods explained of %d", path, release, len(got.Pods), len(vectors))
			}
			for i, v := range vectors {
				if diff := cmp.Diff(v.Want, got.Pods[i]); diff != "" {
					t.Errorf("%s: %s: -want +got\n%s", path, v.Name, diff)
				}
			}
		}
	}
}

// What the timeline says is reserved in the present phase is what the vectors say is reserved now, and it is what
// the ends that are to come will release.
func TestTimelineAgreesWithTheVectors(t *testing.T) {
	compared := 0
	for path, vectors := range readVectors(t) {
		for _, v := range vectors {
			release, err := phase.ParseRelease(v.Release)
			if err != nil {
				t.Fatal(err)
			}
			var pod corev1.Pod
			if err := json.Unmarshal(v.Pod, &pod); err != nil {
				t.Fatal(err)
			}
			got, err := timeline.New(&pod, release, noon())
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			if got.Current == nil {
				continue
			}
			compared++
			if *got.Current != v.Want.CompletedInits {
				t.Errorf("%s: %s: in phase %d, want %d", path, v.Name, *got.Current, v.Want.CompletedInits)
			}
			want, reserved, releasing := map[string]any{}, map[string]any{}, map[string]float64{}
			for _, d := range v.Want.Reserved.PerDevice {
				want[d["uuid"].(string)] = d["memoryMiB"]
			}
			for _, h := range got.Phases[*got.Current].Reserved {
				reserved[h.UUID] = float64(*h.MemoryMiB)
			}
			for _, r := range got.Releases {
				for _, h := range r.Gives {
					if !r.Done {
						releasing[h.UUID] += float64(*h.MemoryMiB)
					}
				}
			}
			if diff := cmp.Diff(want, reserved); diff != "" {
				t.Errorf("%s: %s: -want +got\n%s", path, v.Name, diff)
			}
			for uuid, memory := range releasing {
				if want[uuid] != memory {
					t.Errorf("%s: %s: %v MiB of %s will be released, %v are reserved", path, v.Name, memory, uuid,
						want[uuid])
				}
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d vectors were compared", compared)
	}
}
