package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestExplainAgreesWithTheVectors(t *testing.T) {
	paths, err := filepath.Glob("../../../core/testdata/vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files of vectors found: %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []vector
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
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
