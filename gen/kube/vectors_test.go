package kube_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// vector is a pod and what there is to say about it, worked out independently of the code.
type vector struct {
	Name    string
	Release string // the cluster's policy
	Pod     corev1.Pod
	Want    answer
}

type answer struct {
	Peak struct {
		Devices   int64
		MemoryMiB *int64 // null while only a device can settle it
		Cores     int64
	}
	CompletedInits int
	Phases         []namedPhase
	Reserved       struct {
		PerDevice []perDevice
		Total     struct{ MemoryMiB, Cores int64 }
	}
}

type namedPhase struct {
	Name  string
	Alive []string
}

type perDevice struct {
	UUID                    string
	Slots, MemoryMiB, Cores int64
}

// TestVectors: real pods give the wanted answers, as they come from the API server and as Transform
// leaves them.
func TestVectors(t *testing.T) {
	for file, count := range map[string]int{"phases.json": 500, "kubelet-rerun.json": 19, "edges.json": 19} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../core/testdata/vectors", file))
			if err != nil {
				t.Fatal(err)
			}
			var vectors []vector
			if err := json.Unmarshal(text, &vectors); err != nil {
				t.Fatal(err)
			}
			if len(vectors) != count {
				t.Errorf("%d vectors, want %d", len(vectors), count)
			}
			for i := range vectors {
				v := &vectors[i]
				release, err := phase.ParseRelease(v.Release)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(v.Want, answerOf(t, &v.Pod, release)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", v.Name, diff)
				}
				reduced, err := kube.Transform(&v.Pod)
				if err != nil {
					t.Fatal(err)
				}
				pod, ok := reduced.(*corev1.Pod)
				if !ok {
					if kube.Tracked(&v.Pod) {
						t.Errorf("%s: a pod with devices was reduced to %T", v.Name, reduced)
					}
					continue
				}
				if diff := cmp.Diff(v.Want, answerOf(t, pod, release)); diff != "" {
					t.Errorf("%s, reduced (-want +got):\n%s", v.Name, diff)
				}
			}
		})
	}
}

func answerOf(t *testing.T, pod *corev1.Pod, release phase.Release) answer {
	t.Helper()
	truth := kube.LedgerPod(pod, release)
	if truth.Unreadable != "" {
		t.Fatalf("pod %s is unreadable: %s", pod.Name, truth.Unreadable)
	}
	classes := truth.Classes
	var got answer
	for k := range classes.Len() {
		p := namedPhase{Name: "steady"}
		if i := classes.InitPosition(k); i >= 0 {
			p.Name = kube.Container(&pod.Spec, i).Name
		}
		for i := range classes {
			if classes.Alive(k, i) {
				p.Alive = append(p.Alive, kube.Container(&pod.Spec, i).Name)
			}
		}
		got.Phases = append(got.Phases, p)
	}
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	charges, known, err := kube.Charges(classes, requests)
	if err != nil {
		t.Fatal(err)
	}
	memory := charges["NVIDIA"].MemoryMiB
	got.Peak.Devices, got.Peak.Cores = charges["NVIDIA"].Devices, charges["NVIDIA"].Cores
	if settled, asked := known["NVIDIA"]; settled || !asked {
		got.Peak.MemoryMiB = &memory
	}
	got.CompletedInits = classes.Progress(kube.Status(pod)).Inits
	reserved, err := classes.Reserved(truth.Allocation, truth.First)
	if err != nil {
		t.Fatal(err)
	}
	got.Reserved.PerDevice = []perDevice{}
	for _, d := range reserved.Devices {
		got.Reserved.PerDevice = append(got.Reserved.PerDevice, perDevice{d.UUID, d.Slots, d.MemoryMiB, d.Cores})
	}
	for _, total := range reserved.Totals { // of the one family that there is
		got.Reserved.Total.MemoryMiB, got.Reserved.Total.Cores = total.MemoryMiB, total.Cores
	}
	return got
}
